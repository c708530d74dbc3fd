// Command seeded proves that the harness can fail: it plants one bug after another in a copy of the product and says
// what caught each (make seeded).
//
// A bug is a patch in patches, with a head of lines that begin with "# ": what it does, and optionally
//
//	# sim: flags for the simulation that lead it to where the bug is; none: it cannot see it, ask the tests at once
//	# tests: packages whose tests are asked where the simulation finds nothing
//
// The simulation runs on fixed seeds. A bug that does not apply any more, that does not build, or that nothing catches
// in time, is a failure.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	only := flag.String("only", "", "only bugs whose names match this")
	pick := flag.Int("pick", 0, "so many bugs, chosen by -seed; 0: all")
	seed := flag.String("seed", time.Now().UTC().Format(time.DateOnly), "what -pick chooses by")
	limit := flag.Duration("limit", 2*time.Minute, "time to catch a bug in")
	flag.Parse()
	if err := run(*only, *pick, *seed, *limit); err != nil {
		fmt.Fprintln(os.Stderr, "seeded:", err)
		os.Exit(1)
	}
}

func run(only string, pick int, seed string, limit time.Duration) error {
	bugs, err := load("test/seeded/patches")
	if err != nil {
		return err
	}
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	bugs = slices.DeleteFunc(bugs, func(b bug) bool { return !wanted.MatchString(b.name) })
	if pick > 0 && pick < len(bugs) {
		slices.SortFunc(bugs, func(a, b bug) int { return strings.Compare(a.lot(seed), b.lot(seed)) })
		bugs = bugs[:pick]
		fmt.Printf("%d bugs chosen by %q\n", pick, seed)
	}
	dir, err := os.MkdirTemp("", "chathome-seeded-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := copyTree(dir); err != nil {
		return fmt.Errorf("copy the tree: %w", err)
	}
	if err := warm(dir, bugs); err != nil {
		return err
	}
	began, missed := time.Now(), 0
	fmt.Print("| bug | caught by | seconds |\n|---|---|---|\n")
	for _, b := range bugs {
		at := time.Now()
		by, err := b.catch(dir, limit)
		if err != nil {
			missed++
			by = "**nothing**: " + err.Error()
		}
		fmt.Printf("| %s | %s | %.0f |\n", b.what, by, time.Since(at).Seconds())
	}
	fmt.Printf("\n%d bugs, %d not caught, %v\n", len(bugs), missed, time.Since(began).Round(time.Second))
	if missed > 0 {
		return errors.New("the harness does not see every bug")
	}
	return nil
}

// warm builds everything once as it is, so that a bug's time is its own.
func warm(dir string, bugs []bug) error {
	args := []string{"test", "-trimpath", "-run", "^$", "-tags", "failpoints", "./test/sim"}
	if out, err := command(context.Background(), dir, "go", args...); err != nil {
		return fmt.Errorf("the product does not build: %s", brief(out))
	}
	var packages []string
	for _, b := range bugs {
		packages = append(packages, b.tests...)
	}
	slices.Sort(packages)
	args = append([]string{"test", "-trimpath", "-run", "^$"}, slices.Compact(packages)...)
	if out, err := command(context.Background(), dir, "go", args...); err != nil {
		return fmt.Errorf("the product does not build: %s", brief(out))
	}
	return nil
}

// bug is one patch.
type bug struct {
	name  string
	what  string
	path  string
	sim   []string
	tests []string
}

// lot is the bug's place in a draw.
func (b bug) lot(seed string) string {
	h := fnv.New64a()
	fmt.Fprint(h, seed, b.name)
	return fmt.Sprintf("%016x", h.Sum64())
}

func load(dir string) (bugs []bug, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		path, err := filepath.Abs(name)
		if err != nil {
			return nil, err
		}
		b := bug{name: strings.TrimSuffix(filepath.Base(name), ".patch"), path: path}
		for line := range strings.Lines(string(text)) {
			rest, ok := strings.CutPrefix(strings.TrimSpace(line), "# ")
			if !ok {
				break
			}
			if flags, ok := strings.CutPrefix(rest, "sim: "); ok {
				b.sim = strings.Fields(flags)
			} else if packages, ok := strings.CutPrefix(rest, "tests: "); ok {
				b.tests = strings.Fields(packages)
			} else {
				b.what = strings.TrimSpace(b.what + " " + rest)
			}
		}
		bugs = append(bugs, b)
	}
	if len(bugs) == 0 {
		return nil, fmt.Errorf("no patches in %s: run it from the root of the repository", dir)
	}
	return bugs, nil
}

// catch plants the bug, asks the simulation and then the packages' own tests, and takes the bug out again.
func (b bug) catch(dir string, limit time.Duration) (by string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if out, err := command(ctx, dir, "git", "apply", "-p1", b.path); err != nil {
		return "", fmt.Errorf("does not apply: %s", brief(out))
	}
	defer func() {
		if out, rerr := command(context.Background(), dir, "git", "apply", "-p1", "-R", b.path); rerr != nil {
			err = errors.Join(err, fmt.Errorf("cannot be taken out: %s", brief(out)))
		}
	}()
	if !slices.Equal(b.sim, []string{"none"}) {
		if by, err := b.simulate(ctx, dir); by != "" || err != nil {
			return by, err
		}
	}
	if len(b.tests) > 0 {
		out, err := command(ctx, dir, "go", append([]string{"test", "-trimpath", "-failfast", "-timeout", "60s"}, b.tests...)...)
		if err != nil && ctx.Err() == nil {
			return "tests: " + failures(out), nil
		}
	}
	if ctx.Err() != nil {
		return "", fmt.Errorf("not caught within %v", limit)
	}
	return "", errors.New("not caught")
}

// simulate is empty where the simulation finds nothing.
func (b bug) simulate(ctx context.Context, dir string) (by string, err error) {
	binary := filepath.Join(dir, "sim.test")
	if out, err := command(ctx, dir, "go", "test", "-c", "-trimpath", "-tags", "failpoints", "-o", binary, "./test/sim"); err != nil {
		return "", fmt.Errorf("does not build: %s", brief(out))
	}
	args := []string{"-test.run", "^TestSim$", "-test.failfast", "-test.timeout", "85s", "-seed", "1", "-runs", "6", "-hours", "0.8", "-out", filepath.Join(dir, "kept")}
	if out, err := command(ctx, dir, binary, append(args, b.sim...)...); err != nil && ctx.Err() == nil && !bytes.Contains(out, []byte("panic: test timed out")) {
		return "simulation: " + violation(out), nil
	}
	return "", nil
}

func command(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	return c.CombinedOutput()
}

var (
	violated = regexp.MustCompile(`first violation at [^:]*: ([^:]*)`)
	failed   = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	panicked = regexp.MustCompile(`(?m)^(?:panic|fatal error): (.{0,80})`)
)

func violation(out []byte) string {
	if m := violated.FindSubmatch(out); m != nil {
		return string(m[1])
	}
	if m := panicked.FindSubmatch(out); m != nil {
		return string(m[1])
	}
	return brief(out)
}

func failures(out []byte) string {
	var names []string
	for _, m := range failed.FindAllSubmatch(out, 3) {
		names = append(names, "`"+string(m[1])+"`")
	}
	if len(names) == 0 {
		return violation(out)
	}
	return strings.Join(names, ", ")
}

func brief(out []byte) string {
	s := strings.Join(strings.Fields(string(out)), " ")
	return s[:min(len(s), 200)]
}

// copyTree copies what git would commit, as it lies there now.
func copyTree(dir string) error {
	out, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return err
	}
	for _, name := range bytes.Split(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		if err := copyFile(filepath.Join(dir, string(name)), string(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func copyFile(to, from string) error {
	info, err := os.Lstat(from)
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
