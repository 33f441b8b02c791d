package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"poold/internal/httpapi"
	"poold/internal/purchase"
)

// replayTime is the most that a replay may take; each letter is an exchange
// with Redis.
const replayTime = 5 * time.Minute

// deadLetters lists the callbacks that a running daemon could not store, or has
// it try them again.
func deadLetters(ctx context.Context, c *command) error {
	flags := newFlags(c)
	connect := clientFlags(flags, c)
	asJSON := flags.Bool("json", false, "print the daemon's answer itself")
	c.word = "list|replay"
	words, err := c.parse(flags, 1)
	if err != nil {
		return err
	}
	ask := map[string]func(context.Context, *client) ([]byte, error){"list": listLetters, "replay": replayLetters}
	show := map[string]func([]byte) (string, error){"list": letterTable, "replay": replayLine}
	verb := strings.Join(words, "")
	if ask[verb] == nil {
		return usageError{"needs one of the words list and replay"}
	}
	daemon, err := connect()
	if err != nil {
		return err
	}
	body, err := ask[verb](ctx, daemon)
	if err != nil {
		return err
	}
	text := string(body)
	if !*asJSON {
		if text, err = show[verb](body); err != nil {
			return fmt.Errorf("reading the daemon's answer: %w", err)
		}
	}
	_, err = fmt.Fprintln(c.stdout, strings.TrimRight(text, "\n"))
	return err
}

func listLetters(ctx context.Context, daemon *client) ([]byte, error) {
	return daemon.ask(ctx, http.MethodGet, "/dead-letters", "application/json", 10*time.Second)
}

func replayLetters(ctx context.Context, daemon *client) ([]byte, error) {
	return daemon.ask(ctx, http.MethodPost, "/dead-letters/replay", "application/json", replayTime)
}

// letterTable makes a table of the daemon's list.
func letterTable(body []byte) (string, error) {
	var list httpapi.LetterList
	if err := json.Unmarshal(body, &list); err != nil {
		return "", err
	}
	var text strings.Builder
	if list.Incomplete {
		text.WriteString("some dead letters cannot be read; the daemon's log says which\n")
	} else if len(list.Letters) == 0 {
		return "there are no dead letters", nil
	}
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	row := func(format string, args ...any) { _, _ = fmt.Fprintf(table, format, args...) } // into memory
	row("ORDER\tPROVIDER\tKIND\tCODE\tARRIVED\tUSELESS AFTER\tBYTES\n")
	for _, l := range list.Letters {
		row("%s\t%s\t%s\t%s\t%s\t%s\t%d\n", plain(l.Order), plain(l.Provider), plain(l.Kind), plain(l.Code),
			l.Arrived.UTC().Format(time.RFC3339), l.Until.UTC().Format(time.RFC3339), l.Size)
	}
	err := table.Flush()
	return text.String(), err
}

// replayLine says how a replay went.
func replayLine(body []byte) (string, error) {
	var r purchase.Replayed
	if err := json.Unmarshal(body, &r); err != nil {
		return "", err
	}
	line := fmt.Sprintf("%d replayed, %d whose orders had ended, %d too old, %d left", r.Replayed, r.Dropped, r.Expired, r.Left)
	if r.Reason != "" {
		line += ": " + plain(r.Reason)
	}
	return line, nil
}

// plain shows a word that a provider chose without what a terminal would obey;
// a dash for none.
func plain(word string) string {
	if word == "" {
		return "-"
	}
	quoted := strconv.Quote(word)
	return quoted[1 : len(quoted)-1]
}
