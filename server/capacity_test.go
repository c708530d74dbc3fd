package main

import (
	"log/slog"
	"testing"
)

func TestCapacity_LeavesDescriptorsForTheRest(t *testing.T) {
	for _, files := range []int{64, 256, 1024, 4096, 20_000, 65_536, 1 << 20} {
		c := capacityOf(files)
		if kept := files - c.followers - c.connections; kept < min(ownFiles, files/4) {
			t.Errorf("of %d descriptors %d are left", files, kept)
		}
		if c.followers < 1 || c.followersPerAddress < 1 || c.connections <= c.followers || c.connectionsPerAddress < 1 {
			t.Errorf("of %d descriptors: %+v", files, c)
		}
	}
	want := capacity{followers: 16_384, followersPerAddress: 4_096, connections: 20_000, connectionsPerAddress: 5_000}
	if got := capacityOf(1 << 20); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if c := allows(slog.New(slog.DiscardHandler)); c.followers < 1 {
		t.Errorf("here: %+v", c)
	}
}
