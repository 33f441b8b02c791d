package redisstore

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
)

// The names of figures in Redis.
const (
	solved    = "solved"
	discarded = "discarded"
	failedOf  = "failed"
	refused   = "refused"
	lost      = "lost"
	elapsed   = "elapsed_ms"
	spent     = "spent"
	unpriced  = "unpriced"
)

// figures are what a record adds to the figures of its type and of its target.
func figures(r history.Record) map[string]int64 {
	f := r.Figures()
	of := map[string]int64{}
	for name, n := range map[string]int64{
		solved: f.Solved, discarded: f.Discarded, failedOf: f.Failed, refused: f.Refused, lost: f.Lost,
		elapsed: f.Elapsed.Milliseconds(), spent: f.Spent, unpriced: f.Unpriced,
	} {
		if n != 0 {
			of[escape("type", string(r.Type), name)] = n
			of[escape("target", r.Target, r.Owner, name)] = n
		}
	}
	return of
}

// plus adds to one figure, by its name; those of another version are ignored.
func plus(f history.Figures, name string, n int64) history.Figures {
	switch name {
	case solved:
		f.Solved += n
	case discarded:
		f.Discarded += n
	case failedOf:
		f.Failed += n
	case refused:
		f.Refused += n
	case lost:
		f.Lost += n
	case elapsed:
		f.Elapsed += time.Duration(n) * time.Millisecond
	case spent:
		f.Spent += n
	case unpriced:
		f.Unpriced += n
	}
	return f
}

// encode writes a record without its ID and end, which the line has.
func encode(r history.Record) string {
	callback := "0"
	if r.Callback {
		callback = "1"
	}
	return escape(
		string(r.Identity), r.Target, r.Owner, string(r.Type), r.Sitekey, r.Pageurl, r.Provider, r.Task,
		string(r.How), r.Code, moment(r.Placed), moment(r.Submitted), moment(r.Solved),
		strconv.Itoa(r.Polls), callback, strconv.FormatInt(r.Price, 10),
	)
}

// decode is the inverse of encode.
func decode(l line) (history.Record, error) {
	f, err := unescape(strings.Split(l.text, "|"))
	if err != nil || len(f) != 16 {
		return history.Record{}, errors.Join(errors.New("history: a record in Redis cannot be read"), err)
	}
	var n [5]int64
	for i, field := range []int{10, 11, 12, 13, 15} {
		if n[i], err = strconv.ParseInt(f[field], 10, 64); err != nil {
			return history.Record{}, fmt.Errorf("history: a record in Redis cannot be read: %w", err)
		}
	}
	return history.Record{
		ID: l.id, Ended: l.at, Identity: captcha.ID(f[0]), Target: f[1], Owner: f[2], Type: captcha.Type(f[3]),
		Sitekey: f[4], Pageurl: f[5], Provider: f[6], Task: f[7], How: history.How(f[8]), Code: f[9],
		Placed: at(n[0]), Submitted: at(n[1]), Solved: at(n[2]), Polls: int(n[3]), Callback: f[14] == "1", Price: n[4],
	}, nil
}

// moment is a time in Unix ms; 0 = none.
func moment(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

// at is the inverse of moment.
func at(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func escape(fields ...string) string {
	for i := range fields {
		fields[i] = url.QueryEscape(fields[i])
	}
	return strings.Join(fields, "|")
}

func unescape(fields []string) ([]string, error) {
	for i := range fields {
		var err error
		if fields[i], err = url.QueryUnescape(fields[i]); err != nil {
			return nil, fmt.Errorf("history: a text in Redis is not escaped: %w", err)
		}
	}
	return fields, nil
}
