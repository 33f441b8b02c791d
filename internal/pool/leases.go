package pool

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb"
)

// Adopt makes this replica the owner of each given order whose lease has expired. The result gone
// lists the orders that no longer exist. If the journal line of an order is unreadable, Adopt fails
// and still returns the other orders.
func (s *Orders) Adopt(ctx context.Context, id captcha.ID, orders []string) (adopted []Record, gone []Ref, err error) {
	ids := make([]any, len(orders))
	for i, order := range orders {
		ids[i] = order
	}
	asked := time.Now()
	reply, err := s.call(ctx, "adopt", s.keys(id), args{"owner": s.replica, "lease_ms": Lease}, ids...)
	if err != nil {
		return nil, nil, err
	}
	answered := time.Now()
	for _, name := range reply.Items("gone") {
		order, _ := name.(string)
		gone = append(gone, Ref{Identity: id, Order: order})
	}
	taken, unread := reply.Items("taken"), reply.Err
	for ; len(taken) >= 4; taken = taken[4:] {
		order, _ := taken[0].(string)
		r, err := readRecord(Ref{Identity: id, Order: order}, s.script("find").Read(taken[1:4]), asked, answered)
		if err != nil {
			unread = cmp.Or(unread, err)
			continue
		}
		adopted = append(adopted, r)
	}
	return adopted, gone, unread
}

// readRecord parses the reply of find.lua. The script ran between the two given times.
func readRecord(order Ref, r *redisdb.Reply, asked, answered time.Time) (Record, error) {
	age, left := r.Duration("age_ms"), r.Duration("left_ms")
	f := fields{rest: r.Text("line")}
	placed, state, _ := f.number(), f.text(), f.text()
	unsolved, price, task := f.number(), f.number(), f.escaped()
	switch {
	case r.Err != nil:
		return Record{}, r.Err
	case f.err != nil:
		return Record{}, f.err
	case len(state) != 1:
		return Record{}, errors.New("pool: an order has an unknown state")
	}
	facts, price, unreadable := decodeFacts(f.rest, price)
	return Record{
		Ref: order, State: State(state[0]), Price: price, Task: task, Facts: facts, Unreadable: unreadable,
		Placed:   answered.Add(-age),
		Until:    asked.Add(left),
		Unsolved: time.Duration(unsolved) * time.Millisecond,
		At:       RedisTime(placed),
	}, nil
}

// Renew renews the leases of this replica's orders. The result lost lists the orders that have
// ended or have another owner.
func (s *Orders) Renew(ctx context.Context, orders []Ref) (lost []Ref, err error) {
	return s.setLeases(ctx, orders, Lease)
}

// ReleaseLeases ends the leases of this replica's orders, so that other replicas can adopt the
// orders immediately.
func (s *Orders) ReleaseLeases(ctx context.Context, orders []Ref) error {
	_, err := s.setLeases(ctx, orders, 0)
	return err
}

// setLeases sets the remaining time of the orders' leases. setLeases makes one exchange, with one
// call of renew.lua for each identity.
func (s *Orders) setLeases(ctx context.Context, orders []Ref, length time.Duration) (lost []Ref, err error) {
	byIdentity := map[captcha.ID][]any{}
	for _, o := range orders {
		byIdentity[o.Identity] = append(byIdentity[o.Identity], o.Order)
	}
	answers := map[captcha.ID]*redisdb.Answer{}
	s.pipelined(ctx, "renew", func(call redisdb.Add) {
		for id, orders := range byIdentity {
			answers[id] = call(s.keys(id), args{"owner": s.replica, "lease_ms": length}, orders...)
		}
	})
	for id, answer := range answers {
		// An error from one node must not hide the replies of the other nodes.
		if answer.Err() != nil {
			err = answer.Err()
			continue
		}
		names := byIdentity[id]
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

// findBatch is the maximum number of orders in one exchange.
const findBatch = 500

// FindAll reads many orders, up to findBatch in one exchange. The result has the orders that exist,
// in the sequence of the argument. FindAll omits orders whose journal line is unreadable. If the
// state of an order is unknown for another reason, FindAll fails.
func (s *Orders) FindAll(ctx context.Context, orders []Ref) ([]Record, error) {
	var found []Record
	for batch := range slices.Chunk(orders, findBatch) {
		answers := make([]*redisdb.Answer, len(batch))
		asked := time.Now()
		s.pipelined(ctx, "find", func(call redisdb.Add) {
			for i, order := range batch {
				answers[i] = call(s.keys(order.Identity), args{"order": order.Order})
			}
		})
		answered := time.Now()
		for i, answer := range answers {
			if answer.Err() != nil {
				return nil, answer.Err()
			}
			reply := s.script("find").Read(answer.Val())
			if len(reply.List()) == 0 {
				continue
			}
			r, err := readRecord(batch[i], reply, asked, answered)
			if reply.Err != nil {
				return nil, reply.Err
			}
			if err == nil {
				found = append(found, r)
			}
		}
	}
	return found, nil
}
