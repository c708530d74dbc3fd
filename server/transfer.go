package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/chathome/chathome/kafkasvc"
	"github.com/chathome/chathome/kafkasvc/transfer"
	"github.com/chathome/chathome/server/config"
)

var errInterrupted = errors.New("interrupted")

// export writes a home to a file.
func (p process) export(cfg config.Config, secrets config.Secrets, file string) error {
	if cfg.Embedded() { // starting its broker would make what is not there
		if kept := filepath.Join(cfg.DataDir, brokerFolder); !there(kept) {
			return fmt.Errorf("no embedded broker has kept anything in %s: name its --data-dir, or --brokers", cfg.DataDir)
		}
	}
	to, err := create(file, p.out)
	if err != nil {
		return err
	}
	err = p.onTopics(cfg, secrets, func(ctx context.Context, topics *kafkasvc.Topics) error {
		bar := newBar(p.err, "exporting")
		origin, done, err := transfer.Export(ctx, topics, to, transfer.Options{Progress: bar.show, Log: p.logger(cfg.Logging)})
		bar.end()
		if err != nil {
			return fmt.Errorf("export: %w", err)
		}
		positions := make([]string, len(origin.Upto))
		for shard, at := range origin.Upto {
			positions[shard] = fmt.Sprintf("%d:%d", shard, at)
		}
		fmt.Fprintf(p.err, "exported %d rooms and %d messages of home %s, all that lies below these offsets by shard: %s\n",
			done.Rooms, done.Messages, origin.Home, strings.Join(positions, " "))
		return nil
	})
	return errors.Join(err, to.close(err == nil))
}

// importFile fills a home.
func (p process) importFile(cfg config.Config, secrets config.Secrets, file string) error {
	from, size := io.Reader(os.Stdin), int64(0)
	if file != config.Standard {
		f, err := os.Open(file)
		if err != nil {
			return fmt.Errorf("open the export: %w", err)
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil {
			size = info.Size()
		}
		from = f
	}
	return p.onTopics(cfg, secrets, func(ctx context.Context, topics *kafkasvc.Topics) error {
		bar := newBar(p.err, "importing")
		life, done, err := transfer.Import(ctx, topics, transfer.Source{Reader: from, Bytes: size, Shards: cfg.Shards},
			transfer.Options{Progress: bar.show, Log: p.logger(cfg.Logging)})
		bar.end()
		if err != nil {
			return fmt.Errorf("import: %w", err)
		}
		fmt.Fprintf(p.err, "home %s holds %d rooms and %d messages on %d shards now; instances may serve it\n", life.Home, done.Rooms, done.Messages, life.Shards)
		return nil
	})
}

// onTopics runs f until it ends or a signal comes.
func (p process) onTopics(cfg config.Config, secrets config.Secrets, f func(context.Context, *kafkasvc.Topics) error) (err error) {
	log := p.logger(cfg.Logging)
	k, err := openKafka(cfg, secrets, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		select {
		case <-p.signals:
			cancel(errInterrupted)
		case <-ctx.Done():
		}
	}()
	topics := kafkasvc.OpenTopics(homeConfig(cfg, k, log))
	defer topics.Close()
	if why := topics.Reason(ctx); why != nil {
		return fmt.Errorf("reach Kafka: %w", why)
	}
	return f(ctx, topics)
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// output is a file that gets its name when it is complete, or the standard output.
type output struct {
	io.Writer
	file *os.File // nil: the standard output
	name string
}

func create(name string, standard io.Writer) (*output, error) {
	if name == config.Standard {
		return &output{Writer: standard}, nil
	}
	if there(name) {
		return nil, fmt.Errorf("%s is there already: name a new file, or move that one away", name)
	}
	f, err := os.OpenFile(name+".part", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the file for the export: %w", err)
	}
	return &output{Writer: f, file: f, name: name}, nil
}

func (o *output) close(complete bool) error {
	if o.file == nil {
		return nil
	}
	if !complete {
		return errors.Join(o.file.Close(), os.Remove(o.file.Name()))
	}
	if err := errors.Join(o.file.Sync(), o.file.Close(), os.Rename(o.file.Name(), o.name)); err != nil {
		return fmt.Errorf("finish the export: %w", err)
	}
	return nil
}
