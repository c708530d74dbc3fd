package main

import (
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
	ballast := filepath.Join(h.disk, "ballast")
	f, err := os.OpenFile(ballast, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil && !errors.Is(err, syscall.ENOSPC) {
		return 0, err
	}
	var bit int64
	if err == nil {
		block := make([]byte, 64<<10)
		for size := len(block); size >= 512; {
			if _, err = f.Write(block[:size]); err != nil {
				size /= 2 // to the last bit
				bit = 1
			}
		}
		f.Close()
	}
	h.hold(ctx, h.between(time.Second, 6*time.Second))
	return bit, os.Remove(ballast)
}
