package directory

import (
	"context"
	"fmt"

	"github.com/chathome/chathome/domain"
)

// Owner is the shard's owner as far as the directory knows; nil: nobody yet.
func (d *Directory) Owner(shard domain.ShardID) *domain.Owner {
	e, ok := d.ownerEntry(shard)
	if !ok {
		return nil
	}
	return &e.Owner
}

func (d *Directory) ownerEntry(shard domain.ShardID) (OwnerEntry, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, ok := d.owners[shard]
	return e, ok
}

// Claim is what the directory knew of a shard before its takeover was appended.
type Claim struct {
	shard domain.ShardID
	life  Life
	known OwnerEntry // zero: nobody
	any   bool
}

// Claim is called before the takeover record is appended: only an entry that is known by then can show that
// the shard's partition went back. A higher one that comes later is simply of a later owner.
func (d *Directory) Claim(shard domain.ShardID) Claim {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, ok := d.owners[shard]
	return Claim{shard: shard, life: d.pos.Life, known: e, any: ok}
}

// claimed is the entry of an owner whose takeover landed at version. back: it landed at or below what was
// known before it, so the partition lost records or was made anew, and a new life of it begins.
func claimed(c Claim, now OwnerEntry, self domain.Instance, version domain.Offset) (e OwnerEntry, back bool) {
	e = OwnerEntry{Shard: c.shard, Life: now.Life, Owner: domain.Owner{Instance: self, Version: version}}
	if c.any && version <= c.known.Owner.Version && c.known.Owner != e.Owner {
		back = true
		e.Life = max(e.Life, c.known.Life+1)
	}
	return e, back
}

// AnnounceOwner makes this instance known as the owner whose takeover landed at version. It returns nil once the entry
// is acknowledged and read back, or a higher one is known; it tries until ctx ends.
func (d *Directory) AnnounceOwner(ctx context.Context, c Claim, version domain.Offset) error {
	if d.Life() != c.life {
		return fmt.Errorf("announce the owner of shard %d: %w", c.shard, ErrNewLife) // it is no alarm then
	}
	now, _ := d.ownerEntry(c.shard)
	e, back := claimed(c, now, d.cfg.Instance, version)
	if back {
		d.cfg.Log.Error("a takeover landed at or below the version that the directory knows",
			"shard", c.shard, "offset", version, "known", c.known.Owner.Version)
		d.cfg.Hooks.Alarm(Alarm{
			Kind: AlarmShardWentBack, Shard: c.shard, Have: int64(version), Want: int64(c.known.Owner.Version),
		})
	}
	value, err := encodeOwner(c.life.Home, e)
	for done := false; err == nil && !done; {
		done, err = d.publishOwner(ctx, c.life, e, value)
	}
	if err != nil {
		return fmt.Errorf("announce the owner of shard %d: %w", c.shard, err)
	}
	return nil
}

// publishOwner is not done when the view was dropped meanwhile: the topic may have lost the entry.
func (d *Directory) publishOwner(ctx context.Context, life Life, e OwnerEntry, value []byte) (done bool, err error) {
	d.mu.Lock()
	epoch, present := d.epoch, d.pos.Life
	now, known := d.owners[e.Shard]
	d.mu.Unlock()
	switch {
	case present != life:
		return false, ErrNewLife
	case known && !now.less(e):
		return true, nil
	}
	err = d.publish(ctx, epoch, [][]byte{value})
	return d.viewEpoch() == epoch, err
}
