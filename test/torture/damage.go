package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// damagedStore stops the instance, hurts files of its local store, and starts it: wrong data must never be answered.
func damagedStore(ctx context.Context, h hit) (int64, error) {
	if h.rand.IntN(2) == 0 {
		if err := h.i.Stop(stopLimit); err != nil {
			return 0, err
		}
	} else if err := h.i.Kill(); err != nil {
		return 0, err
	}
	var files []string
	err := filepath.WalkDir(h.i.StoreDir(), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil && info.Size() > 0 {
				files = append(files, path)
			}
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("find files of the store: %w", err)
	}
	slices.Sort(files)
	var hurt int64
	for n := 1 + h.rand.IntN(4); n > 0 && len(files) > 0; n-- {
		k := h.rand.IntN(len(files))
		if err := h.damage(files[k]); err != nil {
			return hurt, err
		}
		files = slices.Delete(files, k, k+1)
		hurt++
	}
	h.hold(ctx, h.between(0, time.Second))
	return hurt, h.i.Start()
}

// damage flips bits, cuts the end off, or removes the file.
func (h hit) damage(path string) error {
	b, err := os.ReadFile(path)
	if err != nil || len(b) == 0 {
		return err
	}
	name, err := filepath.Rel(h.i.StoreDir(), path)
	if err != nil {
		return err
	}
	switch h.rand.IntN(5) {
	case 0:
		b = b[:h.rand.IntN(len(b))]
		h.note("store of %s: %s cut to %d bytes", h.i.Name, name, len(b))
	case 1:
		h.note("store of %s: %s removed", h.i.Name, name)
		return os.Remove(path)
	default:
		flips := 1 + h.rand.IntN(8)
		for range flips {
			b[h.rand.IntN(len(b))] ^= 1 << h.rand.IntN(8)
		}
		h.note("store of %s: %d bits flipped in %s", h.i.Name, flips, name)
	}
	return os.WriteFile(path, b, 0o600)
}
