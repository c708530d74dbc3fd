package local

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// freezeFS stands between Pebble and the disk. When a write fails, it is as if the machine had lost its power at that
// moment: the fault is set, and nothing is changed on the disk any more, which leaves the files in a state that
// Pebble recovers from by design. Pebble itself must not notice, because it ends the process, panics under its
// locks, or repeats the work without a pause. So it goes on in memory: new files are made there, and writes
// to open logs vanish. That takes no more memory than what is flushed until the store is closed, because the
// store refuses commits after a fault.
type freezeFS struct {
	vfs.FS
	fault *fault
	over  vfs.FS // files made after the freeze; shadows the disk
}

func newFreezeFS(base vfs.FS, f *fault) *freezeFS {
	return &freezeFS{FS: base, fault: f, over: vfs.NewMem()}
}

func (x *freezeFS) frozen() bool { return x.fault.frozen.Load() }

// changed is for a change of the disk that ended with err: true if it must be repeated in memory.
func (x *freezeFS) changed(err error) bool {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return false
	}
	x.fault.fail(err)
	return true
}

func (x *freezeFS) inMemory(name string) bool {
	_, err := x.over.Stat(name)
	return err == nil
}

func (x *freezeFS) createInMemory(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := x.over.MkdirAll(x.PathDir(name), 0o700); err != nil {
		return nil, err
	}
	return x.over.Create(name, c)
}

func (x *freezeFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if x.frozen() {
		return x.createInMemory(name, c)
	}
	f, err := x.FS.Create(name, c)
	if x.changed(err) {
		return x.createInMemory(name, c)
	}
	return x.wrap(name, f, err)
}

func (x *freezeFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if x.frozen() {
		return x.createInMemory(newname, c)
	}
	f, err := x.FS.ReuseForWrite(oldname, newname, c)
	if x.changed(err) {
		return x.createInMemory(newname, c)
	}
	return x.wrap(newname, f, err)
}

func (x *freezeFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if x.frozen() {
		return x.createInMemory(name, c)
	}
	f, err := x.FS.OpenReadWrite(name, c, opts...)
	return x.wrap(name, f, err)
}

func (x *freezeFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if x.frozen() && x.inMemory(name) {
		return x.over.Open(name, opts...)
	}
	return x.FS.Open(name, opts...)
}

// OpenDir: directories are opened to be synced.
func (x *freezeFS) OpenDir(name string) (vfs.File, error) {
	f, err := x.FS.OpenDir(name)
	return x.wrap("", f, err)
}

func (x *freezeFS) Stat(name string) (vfs.FileInfo, error) {
	if x.frozen() {
		if info, err := x.over.Stat(name); err == nil {
			return info, nil
		}
	}
	return x.FS.Stat(name)
}

func (x *freezeFS) Remove(name string) error {
	if x.frozen() {
		if x.inMemory(name) {
			return x.over.Remove(name)
		}
		return nil
	}
	err := x.FS.Remove(name)
	if x.changed(err) {
		return nil
	}
	return err
}

func (x *freezeFS) RemoveAll(name string) error {
	if x.frozen() {
		return nil
	}
	err := x.FS.RemoveAll(name)
	if x.changed(err) {
		return nil
	}
	return err
}

func (x *freezeFS) Rename(oldname, newname string) error {
	if x.frozen() {
		if x.inMemory(oldname) {
			return x.over.Rename(oldname, newname)
		}
		return nil
	}
	err := x.FS.Rename(oldname, newname)
	if x.changed(err) {
		return nil
	}
	return err
}

func (x *freezeFS) Link(oldname, newname string) error {
	if x.frozen() {
		return nil
	}
	err := x.FS.Link(oldname, newname)
	if x.changed(err) {
		return nil
	}
	return err
}

func (x *freezeFS) MkdirAll(dir string, perm os.FileMode) error {
	if x.frozen() {
		return nil
	}
	err := x.FS.MkdirAll(dir, perm)
	if x.changed(err) {
		return nil
	}
	return err
}

func (x *freezeFS) Unwrap() vfs.FS { return x.FS }

func (x *freezeFS) wrap(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	table := strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")
	return &freezeFile{File: f, fs: x, silent: !table}, nil
}

// freezeFile is a file or directory on the disk.
type freezeFile struct {
	vfs.File
	fs *freezeFS
	// Logs, manifests and the like are read only by the next Open, so what is missing in them is not missed by this
	// one. A table is read again: to lose a part of it silently would look like corruption. Its writer gets
	// the error and starts another one, in memory.
	silent bool
}

var errFrozen = errors.New("the local store failed before")

// before says whether a change is to be left out.
func (f *freezeFile) before() (skip bool, err error) {
	if !f.fs.frozen() {
		return false, nil
	}
	if f.silent {
		return true, nil
	}
	return true, errFrozen
}

func (f *freezeFile) after(err error) error {
	if err == nil {
		return nil
	}
	f.fs.fault.fail(err)
	if f.silent {
		return nil
	}
	return err
}

func (f *freezeFile) Write(p []byte) (int, error) {
	if skip, err := f.before(); skip {
		return len(p), err
	}
	_, err := f.File.Write(p)
	return len(p), f.after(err)
}

func (f *freezeFile) WriteAt(p []byte, off int64) (int, error) {
	if skip, err := f.before(); skip {
		return len(p), err
	}
	_, err := f.File.WriteAt(p, off)
	return len(p), f.after(err)
}

func (f *freezeFile) Preallocate(offset, length int64) error {
	if skip, err := f.before(); skip {
		return err
	}
	return f.after(f.File.Preallocate(offset, length))
}

func (f *freezeFile) Sync() error {
	if skip, err := f.before(); skip {
		return err
	}
	return f.after(f.File.Sync())
}

func (f *freezeFile) SyncData() error {
	if skip, err := f.before(); skip {
		return err
	}
	return f.after(f.File.SyncData())
}

func (f *freezeFile) SyncTo(length int64) (bool, error) {
	if skip, err := f.before(); skip {
		return false, err
	}
	full, err := f.File.SyncTo(length)
	return full, f.after(err)
}

func (f *freezeFile) Close() error { return f.after(f.File.Close()) }
