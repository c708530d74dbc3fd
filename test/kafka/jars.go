package kafka

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

//go:embed pom.xml
var pom []byte

// MissingError says in one line what has to be installed first.
type MissingError struct{ What string }

func (e *MissingError) Error() string { return "real brokers need " + e.What }

// Need says whether brokers can be started here: nil, or a *MissingError.
func Need(ctx context.Context, versions ...Version) error {
	if err := needJava(ctx); err != nil {
		return err
	}
	for _, v := range versions {
		dir, err := jarsDir(v)
		if err != nil {
			return err
		}
		if _, err := os.Stat(dir); err == nil {
			continue
		}
		if _, err := exec.LookPath("mvn"); err != nil {
			return &MissingError{"Maven (mvn) to fetch Apache Kafka " + string(v) + ", and it is not on the PATH"}
		}
	}
	return nil
}

const leastJava = 17 // of Kafka 4

func needJava(ctx context.Context) error {
	want := fmt.Sprintf("Java %d or later", leastJava)
	if _, err := exec.LookPath("java"); err != nil {
		return &MissingError{want + ", and there is no java on the PATH"}
	}
	out, err := exec.CommandContext(ctx, "java", "-version").CombinedOutput()
	if err != nil {
		return &MissingError{fmt.Sprintf("%s, and java -version fails: %v", want, err)}
	}
	if have, ok := javaVersion(string(out)); ok && have < leastJava {
		return &MissingError{fmt.Sprintf("%s, and java on the PATH is %d", want, have)}
	}
	return nil
}

// javaVersion finds the major version in what java -version prints: `openjdk version "17.0.15" 2025-04-15`.
func javaVersion(out string) (major int, ok bool) {
	_, rest, ok := strings.Cut(out, `version "`)
	if !ok {
		return 0, false
	}
	rest = strings.TrimPrefix(rest, "1.") // 1.8 is Java 8
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	major, err := strconv.Atoi(rest[:end])
	return major, err == nil
}

// jarsDir is where the jars of a version lie once they are complete.
func jarsDir(v Version) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w", err)
	}
	sum := sha256.Sum256(pom) // another pom, other jars
	return filepath.Join(cache, "chathome", "kafka", string(v)+"-"+hex.EncodeToString(sum[:4])), nil
}

// jars returns the folder with a version's jars and lets Maven fetch them where they are missing.
func jars(ctx context.Context, v Version) (string, error) {
	dir, err := jarsDir(v)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := Need(ctx, v); err != nil {
		return "", err
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", fmt.Errorf("make the cache for jars: %w", err)
	}
	// Whole or not at all: another process may be fetching the same, and this one may be killed.
	work, err := os.MkdirTemp(parent, ".fetching-")
	if err != nil {
		return "", fmt.Errorf("make the cache for jars: %w", err)
	}
	defer os.RemoveAll(work)
	file := filepath.Join(work, "pom.xml")
	if err := os.WriteFile(file, pom, 0o644); err != nil {
		return "", fmt.Errorf("write the pom: %w", err)
	}
	libs := filepath.Join(work, "libs")
	cmd := exec.CommandContext(ctx, "mvn", "--batch-mode", "--quiet", "--file", file,
		"dependency:copy-dependencies", "-DincludeScope=runtime", "-Dkafka.version="+string(v), "-DoutputDirectory="+libs)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetch Apache Kafka %s with Maven: %w\n%s", v, err, bytes.TrimSpace(out))
	}
	if err := os.Rename(libs, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		if _, gone := os.Stat(dir); gone != nil {
			return "", fmt.Errorf("keep the jars: %w", err)
		}
	}
	return dir, nil
}
