package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// diskSize is that of the small disk of one instance; a store of a round takes a part of it.
const diskSize = "96m"

// mountDisk puts a small file system at dir. Only root may, and not everywhere.
func mountDisk(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+diskSize, "chathome-torture", dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mount a small disk: %w: %s", err, out)
	}
	return nil
}

func unmountDisk(dir string) error {
	// Lazily: a killed process may still be on its way out.
	if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("unmount the small disk: %w: %s", err, out)
	}
	return nil
}

var errNoDisk = errors.New("no small disk could be mounted")

// fullDisk fills the disk of the instance that has a small one, whichever was drawn.
func fullDisk(ctx context.Context, h hit) (int64, error) {
	if h.disk == "" {
		return 0, errNoDisk
	}
	before, err := complaints(h.i.LogFile)
	if err != nil {
		return 0, err
	}
	ballast := filepath.Join(h.disk, "ballast")
	f, err := os.OpenFile(ballast, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil && !errors.Is(err, syscall.ENOSPC) {
		return 0, err
	}
	if err == nil {
		block := make([]byte, 64<<10)
		for size := len(block); size >= 512; {
			if _, err = f.Write(block[:size]); err != nil {
				size /= 2 // to the last byte
			}
		}
		f.Close()
	}
	h.hold(ctx, h.between(2*time.Second, 8*time.Second))
	if err := os.Remove(ballast); err != nil {
		return 0, err
	}
	after, err := complaints(h.i.LogFile)
	return after - before, err
}

// complaints counts how often a store has met a full disk, as the log tells.
func complaints(log string) (int64, error) {
	b, err := os.ReadFile(log)
	return int64(bytes.Count(b, []byte("no space left on device"))), err
}
