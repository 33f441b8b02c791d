package redisclaims

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"poold/internal/ondemand/dedup"
	"poold/internal/redisdb"
)

// Count adds requests to the savings of the current day on Redis' clock. If Count returns an error,
// it is unknown whether the requests were counted.
func (c *Claims) Count(ctx context.Context, requests map[dedup.SavingsSource]int) error {
	args := make([]any, 0, 2*len(requests))
	for source, n := range requests {
		args = append(args, string(source), n)
	}
	_, err := c.db.CallNumber(ctx, scripts.Get("savings_add"), redisdb.Keys{"savings": c.todayKey(), "mark": c.countedKey(rand.Text())}, nil, args...)
	return err
}

// Days returns the requests of today and of the previous six days, today first. The days are UTC
// days on Redis' clock. The result omits sources without requests.
func (c *Claims) Days(ctx context.Context) ([]dedup.SavingsDay, error) {
	reply, err := c.db.Eval(ctx, scripts.Get("savings_days"), []string{c.todayKey()})
	if err != nil {
		return nil, err
	}
	lists, _ := reply.([]any)
	days := make([]dedup.SavingsDay, 0, len(lists))
	for _, list := range lists {
		pair, _ := list.([]any)
		if len(pair) != 2 {
			return nil, fmt.Errorf("redisclaims: reading savings: %T where a day belongs", list)
		}
		date, _ := pair[0].(string)
		requests, err := readSavings(pair[1])
		if err != nil {
			return nil, err
		}
		days = append(days, dedup.SavingsDay{Date: date, BySource: requests})
	}
	return days, nil
}

// readSavings parses a list of the form source, number, source, number, ...
func readSavings(reply any) (map[dedup.SavingsSource]int64, error) {
	list, _ := reply.([]any)
	requests := map[dedup.SavingsSource]int64{}
	for ; len(list) >= 2; list = list[2:] {
		source, _ := list[0].(string)
		text, _ := list[1].(string)
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("redisclaims: reading the savings of source %q: %w", source, err)
		}
		requests[dedup.SavingsSource(source)] = n
	}
	return requests, nil
}

// todayKey returns the key of the savings of the current day on this process' clock. The scripts
// replace the date in the key by the date on Redis' clock, which is nearly always the same.
func (c *Claims) todayKey() string { return c.savingsKey(time.Now().UTC().Format(time.DateOnly)) }
