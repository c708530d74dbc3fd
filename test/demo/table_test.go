package main

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/chathome/chathome/test/chat"
	"github.com/chathome/chathome/test/cluster"
	"github.com/chathome/chathome/test/traffic"
)

func seen(t *testing.T) *view {
	t.Helper()
	v := newView(options{duration: time.Minute, seed: 7, rooms: 2}, "own texts")
	shards := func(states ...string) []chat.Shard {
		var list []chat.Shard
		for n, s := range states {
			list = append(list, chat.Shard{Number: n, State: s})
		}
		return list
	}
	for _, name := range []string{"a", "b"} {
		v.instances = append(v.instances, &instanceView{Instance: &cluster.Instance{Process: &cluster.Process{Name: name}}})
	}
	v.learn(v.instances[0], shards("OPEN", "OPEN", "NOT_ASSIGNED", "LOCKED"))
	v.learn(v.instances[1], shards("NOT_ASSIGNED", "NOT_ASSIGNED", "LOADING", "NOT_ASSIGNED"))
	v.mark("b", "killed")
	v.crowd = &traffic.Traffic{}
	v.crowd.Sent.Store(12)
	v.crowd.Stored.Store(10)
	v.rates = []int64{1, 0, 8}
	v.event("kill -9 b, and %s", strings.Repeat("say so at length ", 20))
	v.fault(errors.New("it went wrong"))
	return v
}

func TestTable_SaysWhatThereIs(t *testing.T) {
	v := seen(t)
	got := strings.Join(painter{}.table(v, 100, 40), "\n")
	for _, want := range []string{
		"seed 7", "a         –        ended            ●  ●  ·  ○", "b         –        killed           ·  ·  ◐  ·",
		"owner                               a  a  ?  ?", "12 sent   10 stored   0 received by 4 subscribers   2 on their way", "▁ █ 8", "kill -9 b", "it went wrong",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if lines, next := v.news(1); len(lines) != 1 || next != 2 || !strings.Contains(lines[0], "it went wrong") || len(v.faults()) != 1 {
		t.Error(lines, next)
	}
	if line := v.summary(); !strings.Contains(line, "a open 2; b killed; 12 sent, 10 stored, 0 received") {
		t.Error(line)
	}
}

// Colours aside, no line is wider than the terminal, and no more lines are there than fit.
func TestTable_FitsTheTerminal(t *testing.T) {
	codes := regexp.MustCompile("\x1b\\[[0-9]*m")
	for _, size := range [][2]int{{200, 60}, {100, 30}, {80, 24}, {80, 12}} {
		lines := painter{color: true}.table(seen(t), size[0], size[1])
		if len(lines) > size[1] {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(codes.ReplaceAllString(line, "")); n > size[0] {
				t.Errorf("%v: %d columns: %q", size, n, line)
			}
		}
	}
}
