package config

import (
	"fmt"
	"strings"
)

// Fault is one thing that is wrong with the configuration.
type Fault struct {
	Flag    string // without the hyphens
	Problem string // what is wrong and what to do; never a secret
}

// Faults are all of them at once. The program exits with 2.
type Faults []Fault

func (f Faults) Error() string {
	var b strings.Builder
	if len(f) == 1 {
		b.WriteString("the configuration has a fault:")
	} else {
		fmt.Fprintf(&b, "the configuration has %d faults:", len(f))
	}
	for _, fault := range f {
		fmt.Fprintf(&b, "\n  --%s (%s): %s", fault.Flag, EnvName(fault.Flag), fault.Problem)
	}
	return b.String()
}

// orNil keeps an empty list from being an error that is not nil.
func (f Faults) orNil() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

func (f *Faults) add(flag, format string, args ...any) {
	*f = append(*f, Fault{Flag: flag, Problem: fmt.Sprintf(format, args...)})
}

// EnvName is the environment variable of a flag.
func EnvName(flag string) string {
	return envPrefix + "_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// UsageError is a command line that cannot be understood. The program exits with 2.
type UsageError struct{ Problem string }

func (e *UsageError) Error() string { return e.Problem }
