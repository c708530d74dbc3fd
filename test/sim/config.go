package sim

import (
	"fmt"
	"time"

	"github.com/chathome/chathome/kafkasvc/membership"
)

// Profile is a choice of timeouts.
type Profile string

// The profiles.
const (
	Defaults Profile = "defaults" // what a server has without flags
	Smallest Profile = "smallest" // about the least that the validation accepts, with a session that a broker accepts
	Wide     Profile = "wide"     // for slow networks
)

// Timeouts of a profile.
func (p Profile) Timeouts() membership.Timeouts {
	t := membership.DefaultTimeouts()
	switch p {
	case Smallest:
		t.Heartbeat, t.RPC, t.Margin = 100*time.Millisecond, 500*time.Millisecond, 200*time.Millisecond
		t.Session, t.Rebalance = time.Second, time.Second
		t.Drain, t.Leave = 250*time.Millisecond, 500*time.Millisecond
	case Wide:
		t.Heartbeat, t.RPC = time.Second, 2*time.Second
		t.Session, t.Rebalance = 12*time.Second, 10*time.Second
		t.Drain, t.Leave = 2*time.Second, 2*time.Second
	}
	return t
}

// Mode is what an administrator does to the topics.
type Mode string

// The modes.
const (
	Plain    Mode = "plain"    // nothing
	Deleting Mode = "deleting" // deletes records at the logs' starts
	Lives    Mode = "lives"    // deletes the topics in the middle, which begins another life
)

// Config says what a run is. The same configuration draws the same plan.
type Config struct {
	Seed      uint64
	Duration  time.Duration // with faults; settling comes on top
	Profile   Profile
	Mode      Mode
	Instances int
	Shards    int
	Rooms     int
	Latency   time.Duration // of the network, without any fault: what is under way at the same time hangs on it
	Pace      time.Duration // mean pause of a writer between two messages
	Only      string        // part of the names of the faults to inject; "" for all
	Out       string        // directory for what is kept of a run that failed
}

// Draw is the run that a seed stands for: 24 in a row have every profile and mode.
func Draw(seed uint64, d time.Duration) Config {
	c := Config{
		Seed: seed, Duration: d, Profile: Defaults, Mode: Plain,
		Instances: 3, Shards: 6, Rooms: 8, Pace: 2 * time.Second,
	}
	c.Latency = time.Duration(seed%4) * time.Millisecond
	switch seed % 8 {
	case 3:
		c.Profile = Smallest
	case 6:
		c.Profile = Wide
	}
	switch seed % 6 {
	case 1:
		c.Mode = Deleting
	case 4:
		c.Mode = Lives
	}
	return c
}

func (c Config) String() string {
	return fmt.Sprintf("seed %d, %v, %s timeouts, mode %s", c.Seed, c.Duration, c.Profile, c.Mode)
}
