package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"poold/internal/status"
)

const (
	// mostQuiet is the time without any event after which a stream is closed; the daemon sends an
	// event at least every 5 s.
	mostQuiet = 12 * time.Second
	// pollEvery is the time between two polls without a stream. Each is followed by an
	// attempt to open one.
	pollEvery = 3 * time.Second
)

// watch shows the status whenever it changes, until ctx ends.
func watch(ctx context.Context, c *Console, daemon *Client, v *statusView) error {
	w := &watcher{Console: c, view: v}
	err := follow(ctx, w.take, w.away,
		func(ctx context.Context, take taker) error { return readStream(ctx, daemon, take) },
		func(ctx context.Context, take taker) error { return readOnce(ctx, daemon, take) })
	if ctx.Err() == nil {
		return err
	}
	return nil // an interrupt is the normal end
}

// taker receives a document and shows it. Its error ends the command.
type taker func(*status.Document) error

// errShown marks an error in showing the status. Other errors come from the daemon.
var errShown = errors.New("showing the status")

// follow reads a stream of documents, and polls while there is none. It ends
//   - with ctx,
//   - if the first attempt brings no document,
//   - if a document cannot be shown,
//   - if the key may not read the status.
//
// It passes other errors to away.
func follow(ctx context.Context, take taker, away func(error) error, stream, poll func(context.Context, taker) error) error {
	known := false
	taking := func(d *status.Document) error {
		known = true
		if err := take(d); err != nil {
			return fmt.Errorf("%w: %w", errShown, err)
		}
		return nil
	}
	for {
		err := stream(ctx, taking)
		if ended(err) || ctx.Err() != nil {
			return err
		}
		if err = poll(ctx, taking); err != nil {
			if !known || ended(err) || ctx.Err() != nil {
				return err
			}
			if err := away(err); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}

// ended reports whether a further attempt is pointless.
func ended(err error) bool {
	var refused *refusal
	return errors.Is(err, errShown) || errors.As(err, &refused) && (refused.status == http.StatusUnauthorized || refused.status == http.StatusForbidden)
}

func readOnce(ctx context.Context, daemon *Client, take taker) error {
	document, err := AskStatus(ctx, daemon, StatusTime)
	if err != nil {
		return err
	}
	return take(document)
}

// readStream reads GET /status/stream until it ends or is quiet for mostQuiet.
func readStream(ctx context.Context, daemon *Client, take taker) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := time.AfterFunc(mostQuiet, cancel)
	defer quiet.Stop()
	response, err := daemon.open(ctx, question{method: http.MethodGet, path: "/status/stream", header: http.Header{"Accept": {"text/event-stream"}}})
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	var copied status.Copy
	var name, data string
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, answerLimit)
	for lines.Scan() {
		quiet.Reset(mostQuiet)
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case field == "event":
			name = value
		case field == "data":
			data = value
		case lines.Text() == "" && name != "": // the end of an event
			if err := copied.Take(name, []byte(data)); err != nil {
				return err
			}
			document, err := copied.Document()
			if err != nil {
				return err
			}
			if err := take(document); err != nil {
				return err
			}
			name, data = "", ""
		}
	}
	return lines.Err()
}

// watcher shows documents: on a terminal in place, elsewhere one below the other if they
// differ.
type watcher struct {
	*Console
	view  *statusView
	last  string // the shown text, without the time
	asOf  string
	fault string // the last error that away got; "" = the daemon answers
}

func (w *watcher) take(d *status.Document) error {
	w.asOf, w.fault = d.AsOf, ""
	if w.view.json {
		part := w.view.part(d)
		part.AsOf = ""
		text, err := json.Marshal(part)
		if err != nil || string(text) == w.last {
			return err
		}
		w.last = string(text)
		part.AsOf = d.AsOf
		if text, err = json.Marshal(part); err != nil {
			return err
		}
		return w.printAlone(text)
	}
	return w.draw(w.view.text(d, w.screen()), "as of "+Printable(d.AsOf))
}

// away reports that the daemon does not answer. The shown text stays.
func (w *watcher) away(err error) error {
	known := w.fault == err.Error()
	w.fault = err.Error()
	if screen := w.screen(); screen.lines > 0 && !w.view.json {
		return w.draw(w.last, wrapped(fmt.Sprintf("not live, as of %s: %s", Printable(w.asOf), Printable(err.Error())), screen.columns))
	}
	if known {
		return nil
	}
	_, err = fmt.Fprintf(w.Stderr, "not live, as of %s: %s\n", Printable(w.asOf), Printable(err.Error()))
	return err
}

// draw shows a line and a text below it.
func (w *watcher) draw(text, line string) error {
	same := text == w.last
	w.last = text
	screen := w.screen()
	if screen.lines == 0 {
		if same {
			return nil
		}
		_, err := io.WriteString(w.Stdout, line+"\n"+text+"\n")
		return err
	}
	// A longer text would scroll the top out of sight.
	lines := strings.Split(strings.TrimRight(line+"\n"+text, "\n"), "\n")
	if most := screen.lines - 1; len(lines) > most && most > 0 {
		lines = append(lines[:most-1], fmt.Sprintf("… and %d lines more", len(lines)-most+1))
	}
	const home, clearLine, clearBelow = "\x1b[H", "\x1b[K", "\x1b[J"
	_, err := io.WriteString(w.Stdout, home+strings.Join(lines, clearLine+"\n")+clearLine+"\n"+clearBelow)
	return err
}
