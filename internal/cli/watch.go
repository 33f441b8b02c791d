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
	// mostQuiet is the maximum time between two events of a stream. After a longer time the client
	// closes the stream. The daemon sends an event at least every 5 s.
	mostQuiet = 12 * time.Second
	// pollEvery is the interval between two polls while no stream can be opened. Before each poll the
	// client tries to open a stream.
	pollEvery = 3 * time.Second
)

// watch prints the status whenever it changes, until ctx ends.
func watch(ctx context.Context, c *Console, daemon *Client, v *statusView) error {
	w := &watcher{Console: c, view: v}
	err := follow(ctx, w.take, w.showOutage,
		func(ctx context.Context, take taker) error { return readStream(ctx, daemon, v.query(), take) },
		func(ctx context.Context, take taker) error { return readOnce(ctx, daemon, v.query(), take) })
	if ctx.Err() == nil {
		return err
	}
	return nil // an interrupt by the user is the normal end
}

// taker is a function that prints a received document. An error of a taker ends the command.
type taker func(*status.Document) error

// errShown marks an error that occurred while the status was printed. Other errors come from the
// daemon.
var errShown = errors.New("showing the status")

// follow reads a stream of documents. While no stream can be read, follow polls the status. The
// function ends
//   - if ctx ends,
//   - if the first attempt yields no document,
//   - if a document cannot be printed,
//   - if the key may not read the status.
//
// After any other error, follow calls onOutage and tries again.
func follow(ctx context.Context, take taker, onOutage func(error) error, stream, poll func(context.Context, taker) error) error {
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
		if isFinal(err) || ctx.Err() != nil {
			return err
		}
		if err = poll(ctx, taking); err != nil {
			if !known || isFinal(err) || ctx.Err() != nil {
				return err
			}
			if err := onOutage(err); err != nil {
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

// isFinal reports whether a further attempt would fail too, because the key was refused or the
// status could not be printed.
func isFinal(err error) bool {
	var refused *refusal
	return errors.Is(err, errShown) || errors.As(err, &refused) && (refused.status == http.StatusUnauthorized || refused.status == http.StatusForbidden)
}

func readOnce(ctx context.Context, daemon *Client, query string, take taker) error {
	document, err := askStatus(ctx, daemon, query, StatusTime)
	if err != nil {
		return err
	}
	return take(document)
}

// readStream reads GET /status/stream until the stream ends or sends no event for mostQuiet.
func readStream(ctx context.Context, daemon *Client, query string, take taker) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := time.AfterFunc(mostQuiet, cancel)
	defer quiet.Stop()
	response, err := daemon.open(ctx, apiRequest{method: http.MethodGet, path: "/status/stream" + query, header: http.Header{"Accept": {"text/event-stream"}}})
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

// watcher prints documents. On a terminal each document replaces the last one. On other outputs,
// each changed document follows below the last document.
type watcher struct {
	*Console
	view  *statusView
	last  string // the last printed text, without its time
	asOf  string
	fault string // the last error of the daemon; "" = the daemon answers
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
		return w.printJSON(part)
	}
	return w.draw(w.view.text(d, w.screen()), "as of "+Printable(d.AsOf))
}

// showOutage prints that the daemon does not answer. The last status stays visible.
func (w *watcher) showOutage(err error) error {
	known := w.fault == err.Error()
	w.fault = err.Error()
	if screen := w.screen(); screen.lines > 0 && !w.view.json {
		return w.draw(w.last, wrapLines(fmt.Sprintf("not live, as of %s: %s", Printable(w.asOf), Printable(err.Error())), screen.columns))
	}
	if known {
		return nil
	}
	_, err = fmt.Fprintf(w.Stderr, "not live, as of %s: %s\n", Printable(w.asOf), Printable(err.Error()))
	return err
}

// draw prints a heading line and a text below the heading. On a terminal they replace the last
// heading and text.
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
	// If the text had more lines than the terminal, the terminal would scroll and hide the first lines.
	lines := strings.Split(strings.TrimRight(line+"\n"+text, "\n"), "\n")
	if most := screen.lines - 1; len(lines) > most && most > 0 {
		lines = append(lines[:most-1], fmt.Sprintf("… and %d lines more", len(lines)-most+1))
	}
	const home, clearLine, clearBelow = "\x1b[H", "\x1b[K", "\x1b[J"
	_, err := io.WriteString(w.Stdout, home+strings.Join(lines, clearLine+"\n")+clearLine+"\n"+clearBelow)
	return err
}
