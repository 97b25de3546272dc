package bridge

import (
	"context"
	"io"
	"log/slog"
	"strings"
)

// A logHandler keeps logs readable: a bundle that fails is reported by the SDK
// and by Prism in several records, each with the whole execution plan, and by
// the bridge in one line. What they say beyond that is for debugging.
type logHandler struct {
	slog.Handler
}

func newLogHandler(out io.Writer, level slog.Level) slog.Handler {
	return logHandler{slog.NewTextHandler(out, &slog.HandlerOptions{Level: level})}
}

// echoes begin or are part of records that repeat the failure of a bundle.
var echoes = []string{"process bundle failed for instruction", "Prism received bundle error", "stage.Execute aborting", "Bundle Failed.", "job failed", "Job[", "pipeline failed"}

// longest is the length of a message that is still a line.
const longest = 500

// Handle hands on the record.
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	for _, e := range echoes {
		if strings.Contains(r.Message, e) {
			if !h.Enabled(ctx, slog.LevelDebug) {
				return nil
			}
			r.Level = slog.LevelDebug
			return h.Handler.Handle(ctx, r)
		}
	}
	if line, _, more := strings.Cut(r.Message, "\n"); more || len(line) > longest {
		r.Message = clip(line, longest) + " ..."
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs and WithGroup keep the handler.
func (h logHandler) WithAttrs(as []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(as)}
}

// WithGroup keeps the handler.
func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }
