package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSender_SilenceIsTheLongestBetweenTwoStoredMessages(t *testing.T) {
	base := time.Now()
	at := func(ms, instance int) stored { return stored{base.Add(time.Duration(ms) * time.Millisecond), instance} }
	s := &sender{stored: []stored{at(0, 0), at(500, 0), at(510, 0), at(520, 0), at(700, 1), at(710, 1), at(760, 1)}}
	for _, tc := range []struct {
		from, longest int
		moved         bool
	}{
		{515, 180, true}, // the last one before counts: 520 to 700
		{505, 180, true},
		{705, 50, false},
		{2, 500, false}, // what came before the first look is part of it
	} {
		longest, moved := s.silence(base.Add(time.Duration(tc.from) * time.Millisecond))
		if longest != time.Duration(tc.longest)*time.Millisecond || moved != tc.moved {
			t.Errorf("from %d ms: %v, moved %v; want %d ms, %v", tc.from, longest, moved, tc.longest, tc.moved)
		}
	}
}

func TestDiary_ReadsFromOneStartOn(t *testing.T) {
	metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "# HELP a b\na_sum 3\nb{x=\"with blanks\"} 1.5\nb{x=\"y\"} 2\n")
	}))
	defer metrics.Close()
	const before = "time=2026-01-01T00:00:00.000Z level=INFO msg=\"shards assigned\" shards=2\n"
	const after = "time=2026-01-01T00:00:01.000Z level=INFO msg=\"shards assigned\" shards=2\n" +
		"time=2026-01-01T00:00:01.250Z level=INFO msg=\"shard loaded\" shard=1\n" +
		"time=2026-01-01T00:00:01.500Z level=INFO msg=\"shard loaded\" shard=0\n"
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte(before+after+"time=2026-01-01T00:00:01.600Z msg=\"serving metrics\" url="+metrics.URL+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &diary{file: file, from: len(before)}
	if took, err := d.loadTime(2); err != nil || took != 500*time.Millisecond {
		t.Errorf("loaded in %v, %v", took, err)
	}
	if _, err := d.loadTime(3); err == nil {
		t.Error("two of three shards are taken for all")
	}
	if _, err := (&diary{file: file}).loadTime(2); err == nil {
		t.Error("two starts are taken for one")
	}
	m, err := d.metrics(context.Background())
	if err != nil || m["a_sum"] != 3 || m["b"] != 3.5 || len(m) != 2 {
		t.Errorf("metrics %v, %v", m, err)
	}
}

func TestQuantile(t *testing.T) {
	times := make([]time.Duration, 100)
	for i := range times {
		times[i] = time.Duration(i + 1)
	}
	for q, want := range map[float64]time.Duration{0: 1, .5: 51, .99: 100, 1: 100} {
		if got := quantile(times, q); got != want {
			t.Errorf("%v: %d, want %d", q, got, want)
		}
	}
}
