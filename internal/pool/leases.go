package pool

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/redisdb"
)

// Adopt takes over those of the orders, all of one identity, whose lease has
// ended, and tells which of them do not exist.
func (s *Orders) Adopt(ctx context.Context, id captcha.ID, orders []string) (adopted []Record, gone []Ref, err error) {
	k := s.keys(id)
	args := []any{s.replica, Lease.Milliseconds()}
	for _, order := range orders {
		args = append(args, order)
	}
	asked := time.Now()
	reply, err := s.db.Eval(ctx, s.scripts.adopt, []string{k.orders, k.journal, k.leases, k.stats, k.spend, k.junk, k.ended}, args...)
	if err != nil {
		return nil, nil, err
	}
	answered := time.Now()
	lists, _ := reply.([]any)
	if len(lists) != 2 {
		return nil, nil, fmt.Errorf("pool: adopt answered %d lists", len(lists))
	}
	missing, _ := lists[1].([]any)
	for _, name := range missing {
		order, _ := name.(string)
		gone = append(gone, Ref{Identity: id, Order: order})
	}
	taken, _ := lists[0].([]any)
	for ; len(taken) >= 4; taken = taken[4:] {
		order, _ := taken[0].(string)
		r, err := readRecord(Ref{Identity: id, Order: order}, taken[1:4], asked, answered)
		if err != nil {
			return adopted, gone, err
		}
		adopted = append(adopted, r)
	}
	return adopted, gone, nil
}

// readRecord reads age, rest and journal line of an order. The age is as of the
// script, which ran between asked and answered.
func readRecord(order Ref, list []any, asked, answered time.Time) (Record, error) {
	n, err := redisdb.Integers(list, 2)
	if err != nil {
		return Record{}, err
	}
	line, _ := list[2].(string)
	fields := strings.SplitN(line, "|", 7)
	if len(fields) != 7 || len(fields[1]) != 1 {
		return Record{}, errors.New("pool: a line of the journal has too few fields")
	}
	var numbers [3]int64
	for i, field := range []int{0, 3, 4} {
		if numbers[i], err = strconv.ParseInt(fields[field], 10, 64); err != nil {
			return Record{}, fmt.Errorf("pool: a line of the journal: %w", err)
		}
	}
	task, err := url.QueryUnescape(fields[5])
	if err != nil {
		return Record{}, fmt.Errorf("pool: a line of the journal: %w", err)
	}
	return Record{
		Ref: order, State: State(fields[1][0]), Price: numbers[2], Task: task, Facts: fields[6],
		Placed:   answered.Add(-time.Duration(n[0]) * time.Millisecond),
		Until:    asked.Add(time.Duration(n[1]) * time.Millisecond),
		Unsolved: time.Duration(numbers[1]) * time.Millisecond,
		At:       Moment(numbers[0]),
	}, nil
}

// Renew renews the leases of this replica's orders and returns those that are
// not its own any more, or have ended.
func (s *Orders) Renew(ctx context.Context, orders []Ref) (lost []Ref, err error) {
	return s.lease(ctx, orders, Lease)
}

// LetGo ends the leases of this replica's orders, so that others may adopt them
// at once.
func (s *Orders) LetGo(ctx context.Context, orders []Ref) error {
	_, err := s.lease(ctx, orders, 0)
	return err
}

// lease sets the leases of orders in one exchange, one script an identity.
func (s *Orders) lease(ctx context.Context, orders []Ref, length time.Duration) (lost []Ref, err error) {
	byIdentity := map[captcha.ID][]any{}
	for _, o := range orders {
		if byIdentity[o.Identity] == nil {
			byIdentity[o.Identity] = []any{s.replica, length.Milliseconds()}
		}
		byIdentity[o.Identity] = append(byIdentity[o.Identity], o.Order)
	}
	answers := map[captcha.ID]*redis.Cmd{}
	s.db.Pipelined(ctx, s.scripts.renew, func(call func([]string, ...any) *redis.Cmd) {
		for id, args := range byIdentity {
			k := s.keys(id)
			answers[id] = call([]string{k.journal, k.leases}, args...)
		}
	})
	for id, answer := range answers {
		// What one node does not answer must not hide what the others say.
		if answer.Err() != nil {
			err = answer.Err()
			continue
		}
		names := byIdentity[id][2:]
		mine, unread := redisdb.Integers(answer.Val(), len(names))
		if unread != nil {
			err = unread
			continue
		}
		for i, name := range names {
			if order, _ := name.(string); mine[i] == 0 {
				lost = append(lost, Ref{Identity: id, Order: order})
			}
		}
	}
	return lost, err
}
