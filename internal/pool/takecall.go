package pool

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

type takeCall struct {
	immediate  []*waiter
	waiters    []*waiter
	departures []departure
	failed     bool // whether the callers got redisdb.ErrDown; tokens in a late reply go back into the stock
}

// admit adds waiters to the call until the call is full. admit returns the remaining waiters. If the callers
// of a new waiter left and their request counts, the waiter is added, because the script counts requests.
func (c *takeCall) admit(waiters []*waiter) []*waiter {
	for i, w := range waiters {
		switch {
		case w.done && (w.arrival != "" || w.outcome == outcomeNone):
			continue
		case w.immediate() && len(c.immediate) < mostImmediate:
			c.immediate = append(c.immediate, w)
		case !w.immediate() && len(c.waiters) < mostWaiters:
			c.waiters = append(c.waiters, w)
		default:
			return waiters[i:]
		}
		w.asked = true
	}
	return nil
}

// Lengths of the lists in the header of take.lua.
const (
	callSize      = 9
	departureSize = 3
	waiterSize    = 7
	replyHead     = 2
)

// The outcomes of a departure, as declared in the header of take.lua.
const (
	outcomeNone    = iota // the request is not counted
	outcomeMissed         // the caller's wait ended
	outcomeRefused        // no token could come
)

// encode returns the keys and the arguments of take.lua in the order of the script's header.
func (q *takeQueue) encode(c *takeCall, number int64) (keys []string, args []any) {
	var margin, ratePer int64
	var rate, maxWaiting int
	for _, group := range [][]*waiter{c.immediate, c.waiters} {
		for _, w := range group {
			// The callers' values differ only for a moment after a reload of pools.yaml. The longest margin
			// is safe for all callers. Any caller's rate and maxWaiting are good enough.
			margin = max(margin, w.margin)
			rate, ratePer, maxWaiting = w.rate, w.ratePer, w.maxWaiting
		}
	}
	keys = slices.Clone(q.keys)
	args = make([]any, 0, callSize+departureSize*len(c.departures)+waiterSize*len(c.waiters))
	args = append(args, number, receiptLife.Milliseconds(), margin, rate, ratePer, maxWaiting,
		len(c.immediate), len(c.departures), len(c.waiters))
	for _, d := range c.departures {
		args = append(args, d.ticket, d.outcome, d.holder)
	}
	for _, w := range c.waiters {
		once, endOnFailure := 0, 0
		if w.once != "" {
			keys = append(keys, w.once)
			once = len(keys)
		}
		if w.endOnFailure {
			endOnFailure = 1
		}
		args = append(args, w.ticket, w.arrival, w.need, once, w.minTTL, w.holder, endOnFailure)
	}
	return keys, args
}

// decode parses the reply of take.lua. decode returns the answers of the waiters, followed by the
// answers of the immediate callers.
func (q *takeQueue) decode(c *takeCall, reply []string) ([]answer, error) {
	head := replyHead + 2*len(c.waiters)
	if len(reply) < head || len(reply) > head+len(c.immediate) {
		return nil, fmt.Errorf("pool: take answered %d values to %d callers", len(reply), len(c.waiters)+len(c.immediate))
	}
	now, noTime := strconv.ParseInt(reply[0], 10, 64)
	rateWait, noWait := strconv.ParseInt(reply[1], 10, 64)
	if err := cmp.Or(noTime, noWait); err != nil {
		return nil, fmt.Errorf("pool: take answered no number: %w", err)
	}
	limited := answer{err: &RateError{RetryAfter: time.Duration(rateWait) * time.Millisecond}}
	answers := make([]answer, 0, len(c.waiters)+len(c.immediate))
	for i, w := range c.waiters {
		at := replyHead + 2*i
		answers = append(answers, q.answer(w, reply[at], reply[at+1], now, limited))
	}
	for i, w := range c.immediate {
		switch at := head + i; {
		case at < len(reply):
			answers = append(answers, q.token(w, reply[at], now, FromPool))
		case rateWait > 0:
			answers = append(answers, limited)
		default:
			answers = append(answers, answer{err: errNothing})
		}
	}
	return answers, nil
}

// answer converts the reply of take.lua for one waiter, a word and a value. The header
// of take.lua lists the words.
func (q *takeQueue) answer(w *waiter, word, value string, now int64, limited answer) answer {
	switch word {
	case "token":
		source := FromPool
		if w.arrival != "" {
			source = FromWait
		}
		return q.token(w, value, now, source)
	case "replay":
		return q.token(w, value, now, FromReplay)
	case "parked":
		w.arrival = value
		return answer{err: errParked}
	case "held":
		w.arrival = value
		return answer{err: errParked, limited: limited.err}
	case "none":
		return answer{err: errNothing}
	case "full":
		return answer{err: errFull}
	case "conflict":
		return answer{err: ErrConflict}
	case "limited":
		return limited
	case "failed":
		return answer{err: readFailed(value)}
	}
	return answer{err: fmt.Errorf("pool: take answered %q", word)}
}

// token parses an element of the token list. If the waiter has no Idempotency-Key, the
// hand-out gets a number, so that the token can be put back at most once.
func (q *takeQueue) token(w *waiter, element string, now int64, source Source) answer {
	token, err := parseElement(element, now)
	token.Source = source
	if w.once == "" {
		token.identity, token.margin = q.id, time.Duration(w.margin)*time.Millisecond
		token.handout = q.tokens.replica + "-" + strconv.FormatInt(q.tokens.handouts.Add(1), 36)
	}
	return answer{token: token, err: err}
}
