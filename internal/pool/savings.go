package pool

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"
)

// Count adds requests to those of today, on Redis' clock. An error leaves open whether
// they were counted.
func (s *Claims) Count(ctx context.Context, requests map[SavingsSource]int) error {
	args := make([]any, 0, 2*len(requests))
	for source, n := range requests {
		args = append(args, string(source), n)
	}
	_, err := s.db.Eval(ctx, s.scripts.savings.add, []string{s.today(), s.counted(rand.Text())}, args...)
	return err
}

// Days tells the requests of today and of the six days before, in UTC and on Redis'
// clock, today first. Sources without requests are not in it.
func (s *Claims) Days(ctx context.Context) ([]SavingsDay, error) {
	reply, err := s.db.Eval(ctx, s.scripts.savings.days, []string{s.today()})
	if err != nil {
		return nil, err
	}
	lists, _ := reply.([]any)
	days := make([]SavingsDay, 0, len(lists))
	for _, list := range lists {
		pair, _ := list.([]any)
		if len(pair) != 2 {
			return nil, fmt.Errorf("pool: days answered %T where a day belongs", list)
		}
		date, _ := pair[0].(string)
		requests, err := readSavings(pair[1])
		if err != nil {
			return nil, err
		}
		days = append(days, SavingsDay{Date: date, BySource: requests})
	}
	return days, nil
}

// readSavings reads source, number, source, number, ...
func readSavings(reply any) (map[SavingsSource]int64, error) {
	list, _ := reply.([]any)
	requests := map[SavingsSource]int64{}
	for ; len(list) >= 2; list = list[2:] {
		source, _ := list[0].(string)
		text, _ := list[1].(string)
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("pool: the savings by %q: %w", source, err)
		}
		requests[SavingsSource(source)] = n
	}
	return requests, nil
}

// today is the key of this process' day. The scripts take the day of Redis' clock, which
// is nearly always the same; so the key that they use is nearly always one they are told.
func (s *Claims) today() string { return s.savings(time.Now().UTC().Format(time.DateOnly)) }
