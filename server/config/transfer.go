package config

// Transfer is what export and import are told beside the flags of serve, which say where the home is.
type Transfer struct {
	File string `group:"File" placeholder:"FILE" help:"File to write or to read; - is the standard output or input. A file that is there is never overwritten."`
}

// Standard as a file is the standard output, or input.
const Standard = "-"

// TransferDefaults is what holds for export and import where nothing is set.
func TransferDefaults() Transfer { return Transfer{File: Standard} }

func (t *Transfer) faults(c *Config) Faults {
	f := c.faults()
	if t.File == "" {
		f.add("file", "must name a file, or %s", Standard)
	}
	if c.Embedded() && c.DataDir == InMemory {
		f.add("data-dir", "an embedded broker in memory holds nothing before and keeps nothing after; name a directory, or --brokers")
	}
	return f
}
