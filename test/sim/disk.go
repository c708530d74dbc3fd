package sim

import (
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// disk is the disk of an instance. It outlives crashes.
type disk struct {
	mu  sync.Mutex
	mem *vfs.MemFS // guarded by mu

	full atomic.Bool  // writes fail: no space is left
	bad  atomic.Bool  // reads fail
	flip atomic.Int64 // so many reads get one wrong bit

	failedWrites, failedReads, flipped atomic.Int64
}

func newDisk() *disk { return &disk{mem: vfs.NewCrashableMem()} }

// files is what lies on the disk now.
func (d *disk) files() *vfs.MemFS {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mem
}

// fs is the disk as one life of the instance sees it.
func (d *disk) fs() vfs.FS {
	return errorfs.Wrap(&flippingFS{FS: d.files(), disk: d}, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch write := op.Kind.ReadOrWrite() == errorfs.OpIsWrite; {
		case write && d.full.Load():
			d.failedWrites.Add(1)
			return syscall.ENOSPC
		case !write && op.Kind == errorfs.OpFileReadAt && d.bad.Load():
			d.failedReads.Add(1)
			return syscall.EIO
		}
		return nil
	}))
}

// crash leaves what is on the disk after the process, or with power also the machine, has died.
func (d *disk) crash(r *rand.Rand, power bool) {
	percent := 100
	if power {
		percent = r.IntN(100)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mem = d.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(r.Uint64(), 6))})
}

// wipe loses everything.
func (d *disk) wipe() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mem = vfs.NewCrashableMem()
}

// damage flips a bit in some of the files of the local store while no process uses it.
func (d *disk) damage(r *rand.Rand) (files int) {
	mem := d.files()
	var walk func(dir string)
	walk = func(dir string) {
		names, err := mem.List(dir)
		if err != nil {
			return
		}
		for _, name := range names {
			path := mem.PathJoin(dir, name)
			if info, err := mem.Stat(path); err != nil || info.IsDir() {
				walk(path)
				continue
			}
			if r.IntN(3) > 0 {
				continue
			}
			if damageFile(mem, path, r) {
				files++
			}
		}
	}
	walk(dataDir)
	return files
}

func damageFile(mem *vfs.MemFS, path string, r *rand.Rand) bool {
	f, err := mem.Open(path)
	if err != nil {
		return false
	}
	b, err := io.ReadAll(f)
	_ = f.Close()
	if err != nil || len(b) == 0 {
		return false
	}
	if r.IntN(4) == 0 {
		b = b[:r.IntN(len(b))]
	} else {
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
	}
	w, err := mem.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return false
	}
	_, err = w.Write(b)
	_ = w.Sync()
	_ = w.Close()
	return err == nil
}

// flippingFS gives files whose reads are wrong by one bit while disk.flip says so.
type flippingFS struct {
	vfs.FS
	disk *disk
}

func (f *flippingFS) Unwrap() vfs.FS { return f.FS }

func (f *flippingFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(name, opts...)
	if err != nil {
		return nil, err
	}
	return &flippingFile{file, f.disk}, nil
}

type flippingFile struct {
	vfs.File
	disk *disk
}

func (f *flippingFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.wrong(p[:n])
	return n, err
}

func (f *flippingFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.wrong(p[:n])
	return n, err
}

func (f *flippingFile) wrong(p []byte) {
	if len(p) == 0 || f.disk.flip.Load() <= 0 || f.disk.flip.Add(-1) < 0 {
		return
	}
	f.disk.flipped.Add(1)
	p[len(p)/2] ^= 0x08
}
