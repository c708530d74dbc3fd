package config

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

const envPrefix = "CHATHOME"

// Commands of the program.
const (
	CommandServe  = "serve"
	CommandBroker = "broker"
	CommandSchema = "schema"
	CommandCheck  = "check"
	CommandACLs   = "acls"
	CommandExport = "export"
	CommandImport = "import"
)

// Command is what the command line asks for.
type Command struct {
	Name     string  // one of the Command constants, or empty: help or the version was printed, all is done
	Serve    Config  // also of check, export and import
	Secrets  Secrets // of Serve; Load reads them
	Broker   Broker
	ACLs     ACLs
	Transfer Transfer // of export and import
}

// Load is Parse, and reads the files that the configuration names. What is wrong with them is among the Faults.
func Load(args []string, version string, out io.Writer) (Command, error) {
	cmd, err := Parse(args, version, out)
	var faults Faults
	if err != nil && !errors.As(err, &faults) {
		return Command{}, err
	}
	switch cmd.Name {
	case CommandServe, CommandCheck, CommandExport, CommandImport:
		var more Faults
		cmd.Secrets, more = cmd.Serve.readSecrets()
		faults = append(faults, more...)
	}
	return cmd, faults.orNil()
}

// Types without methods: kong would call Validate, and tell faults as wrong usage.
type (
	serveFlags    Config
	brokerFlags   Broker
	aclsFlags     ACLs
	transferFlags Transfer
)

type grammar struct {
	Version kong.VersionFlag `env:"-" help:"Print the version and exit."`

	Serve struct {
		Flags serveFlags `embed:""`
	} `cmd:"" help:"Run one instance of the chat service."`
	Broker struct {
		Flags brokerFlags `embed:""`
	} `cmd:"" help:"Run the embedded broker as a process of its own, for several instances on one machine."`
	Check struct {
		Flags serveFlags `embed:""`
	} `cmd:"" help:"Check how the brokers and topics are set up, with the flags of serve, and exit with 1 where serve would refuse to start. Changes nothing."`
	Export struct {
		Flags    serveFlags    `embed:""`
		Transfer transferFlags `embed:""`
	} `cmd:"" help:"Write all rooms and messages of a home to a file. The flags of serve say where the home is; instances may go on serving it, but for the embedded broker's."`
	Import struct {
		Flags    serveFlags    `embed:""`
		Transfer transferFlags `embed:""`
	} `cmd:"" help:"Fill an empty home from a file that export wrote. It may be repeated until it is through; no instance may serve the home before that."`
	ACLs struct {
		Flags aclsFlags `embed:""`
	} `cmd:"" name:"acls" help:"Print the commands that give an instance the rights it needs at the brokers, and no others."`
	Schema struct{} `cmd:"" help:"Print the GraphQL schema, for code generators."`
}

// BeforeReset is called by kong when it has read the command line, before it reads the environment.
func (*grammar) BeforeReset(values *valueFaults) error {
	values.lineRead = true
	return nil
}

const description = "Chat rooms on Kafka partitions, served by GraphQL.\n\n" +
	"Every flag has an environment variable of the same name, shown beside it; the flag wins. " +
	"Exit codes: 0 after a clean stop, 1 on a fault, 2 on wrong usage or configuration."

// exited carries kong's wish to exit (after --help or --version) out of its parser.
type exited struct{}

// Parse reads the command line and the environment. Help and version are written to out. The errors are
// *UsageError and Faults; Faults name every value that is wrong, by itself or in relation to others.
func Parse(args []string, version string, out io.Writer) (cmd Command, err error) {
	g, values := &grammar{}, newValueFaults()
	parser, err := newParser(g, values, version, out)
	if err != nil {
		return Command{}, fmt.Errorf("build the command line parser: %w", err)
	}
	defer func() {
		switch r := recover(); r.(type) {
		case nil:
		case exited:
			cmd, err = Command{}, nil
		default:
			panic(r)
		}
	}()
	ctx, err := parser.Parse(args)
	if err != nil {
		return Command{}, &UsageError{Problem: err.Error()}
	}
	cmd = Command{Name: ctx.Command(), Serve: Config(g.Serve.Flags), Broker: Broker(g.Broker.Flags), ACLs: ACLs(g.ACLs.Flags)}
	faults := values.list(ctx.Flags())
	switch cmd.Name {
	case CommandServe:
		cmd.Serve.normalise()
		faults = append(faults, cmd.Serve.faults()...)
	case CommandCheck:
		cmd.Serve = Config(g.Check.Flags)
		cmd.Serve.normalise()
		faults = append(faults, cmd.Serve.faults()...)
		if cmd.Serve.Embedded() {
			faults.add("brokers", "name the brokers to check; the embedded one needs no check")
		}
	case CommandExport:
		cmd.Serve, cmd.Transfer = Config(g.Export.Flags), Transfer(g.Export.Transfer)
		cmd.Serve.normalise()
		faults = append(faults, cmd.Transfer.faults(&cmd.Serve)...)
	case CommandImport:
		cmd.Serve, cmd.Transfer = Config(g.Import.Flags), Transfer(g.Import.Transfer)
		cmd.Serve.normalise()
		faults = append(faults, cmd.Transfer.faults(&cmd.Serve)...)
	case CommandBroker:
		faults = append(faults, cmd.Broker.faults()...)
	case CommandACLs:
		cmd.ACLs.Brokers = cleanList(cmd.ACLs.Brokers)
		faults = append(faults, cmd.ACLs.faults()...)
	}
	return cmd, faults.orNil()
}

func newParser(g *grammar, values *valueFaults, version string, out io.Writer) (*kong.Kong, error) {
	g.Serve.Flags, g.Broker.Flags = serveFlags(Defaults()), brokerFlags(BrokerDefaults())
	g.Check.Flags, g.ACLs.Flags = g.Serve.Flags, aclsFlags(ACLDefaults())
	g.Export.Flags, g.Export.Transfer = g.Serve.Flags, transferFlags(TransferDefaults())
	g.Import.Flags, g.Import.Transfer = g.Serve.Flags, g.Export.Transfer
	options := []kong.Option{
		kong.Name("chathome"),
		kong.Description(description),
		kong.Vars{"version": "chathome " + version},
		kong.Writers(out, out),
		kong.Exit(func(int) { panic(exited{}) }),
		kong.ConfigureHelp(kong.HelpOptions{NoExpandSubcommands: true, WrapUpperBound: 110}),
		kong.Bind(values),
		kong.PostBuild(presetsAreDefaults),
		kong.DefaultEnvars(envPrefix),
	}
	return kong.New(g, append(options, values.mappers()...)...)
}

// presetsAreDefaults takes the defaults from the values in the grammar, so that Defaults is the one place
// that knows them.
func presetsAreDefaults(k *kong.Kong) error {
	for _, command := range k.Model.Children {
		for _, flag := range command.Flags {
			if text := formatValue(flag.Target); text != "" {
				flag.HasDefault = true
				flag.Default = text
			}
		}
	}
	return nil
}

// formatValue is the value as one would set it; empty where nothing is set.
func formatValue(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case bool:
		if value {
			return "on"
		}
		return "off"
	case int:
		if value == 0 {
			return ""
		}
		return strconv.Itoa(value)
	case []string:
		return strings.Join(value, ",")
	case slog.Level:
		return strings.ToLower(value.String())
	case time.Duration:
		return formatDuration(value)
	default:
		return fmt.Sprint(value)
	}
}

// formatDuration writes a duration as people do: 1m, not 1m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	for _, rest := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, rest) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// valueFaults collects values that cannot be read, so that one fault does not hide the next. A flag hides its
// variable, a wrong one too.
type valueFaults struct {
	line     map[string]error // by flag; nil: it was read
	env      map[string]error
	lineRead bool
}

func newValueFaults() *valueFaults {
	return &valueFaults{line: map[string]error{}, env: map[string]error{}}
}

func (f *valueFaults) note(flag string, err error) {
	if f.lineRead {
		f.env[flag] = err
	} else {
		f.line[flag] = err
	}
}

func (f *valueFaults) list(flags []*kong.Flag) Faults {
	var faults Faults
	for _, flag := range flags {
		err, onLine := f.line[flag.Name]
		if !onLine {
			err = f.env[flag.Name]
		}
		if err != nil {
			faults.add(flag.Name, "%v", err)
		}
	}
	return faults
}

func (f *valueFaults) mappers() []kong.Option {
	return []kong.Option{
		kong.TypeMapper(reflect.TypeFor[bool](), switchMapper{f}),
		mapper(f, func(s string) (int, error) {
			n, err := strconv.ParseInt(s, 10, 32)
			if err != nil {
				return 0, fmt.Errorf("%q is not a whole number", s)
			}
			return int(n), nil
		}),
		mapper(f, func(s string) (time.Duration, error) {
			d, err := time.ParseDuration(s)
			if err != nil {
				return 0, fmt.Errorf("%q is not a duration such as 200ms, 6s or 1m", s)
			}
			return d, nil
		}),
		mapper(f, func(s string) (slog.Level, error) {
			for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
				if strings.EqualFold(s, level.String()) {
					return level, nil
				}
			}
			return 0, fmt.Errorf("%q is not one of debug, info, warn, error", s)
		}),
		mapper(f, oneOf(LogText, LogJSON)),
		mapper(f, oneOf(GateInstance, GateShard)),
		mapper(f, oneOf(SASLNone, SASLPlain, SASLScramSHA256, SASLScramSHA512)),
	}
}

func oneOf[T ~string](values ...T) func(string) (T, error) {
	return func(s string) (T, error) {
		names := make([]string, len(values))
		for i, v := range values {
			if strings.EqualFold(s, string(v)) {
				return v, nil
			}
			names[i] = string(v)
		}
		return "", fmt.Errorf("%q is not one of %s", s, strings.Join(names, ", "))
	}
}

// mapper decodes values of type T. One that cannot be read is noted, and the default stands in for it while
// the rest is checked.
func mapper[T any](f *valueFaults, parse func(string) (T, error)) kong.Option {
	return kong.TypeMapper(reflect.TypeFor[T](), kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		var s string
		if err := ctx.Scan.PopValueInto("value", &s); err != nil {
			return err
		}
		value, err := parse(strings.TrimSpace(s))
		f.note(ctx.Value.Name, err)
		if err != nil && ctx.Value.HasDefault {
			value, _ = parse(ctx.Value.Default)
		}
		target.Set(reflect.ValueOf(value))
		return nil
	}))
}

// switchMapper reads --flag, --flag=off, --flag off and --no-flag alike.
type switchMapper struct{ faults *valueFaults }

func (switchMapper) IsBool() bool { return true }

func (m switchMapper) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	token := ctx.Scan.Peek()
	word := strings.TrimSpace(fmt.Sprint(token.Value))
	on, known := switchWord(word)
	switch {
	case token.Type == kong.FlagValueToken: // --flag=word, a variable, a default, or --no-flag
		ctx.Scan.Pop()
		if !known {
			m.faults.note(ctx.Value.Name, fmt.Errorf("%q is neither on nor off", word))
			return nil
		}
	case known: // --flag word
		ctx.Scan.Pop()
	default: // --flag
		on = true
	}
	m.faults.note(ctx.Value.Name, nil)
	target.SetBool(on)
	return nil
}

func switchWord(s string) (on, known bool) {
	switch strings.ToLower(s) {
	case "on", "true", "yes", "1":
		return true, true
	case "off", "false", "no", "0":
		return false, true
	}
	return false, false
}
