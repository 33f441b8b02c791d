package pool

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// takeCall is one script call.
type takeCall struct {
	immediate  []*waiter
	waiters    []*waiter
	departures []departure
	failed     bool // its callers got ErrDown: its tokens go back into the stock
}

// admit adds waiters to the call while it has room and returns the others.
func (c *takeCall) admit(waiters []*waiter) []*waiter {
	for i, w := range waiters {
		switch {
		case w.done:
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

// encode makes the keys and arguments of take.lua.
func (q *takeQueue) encode(c *takeCall, number int64) (keys []string, args []any) {
	head := [callSize]any{
		callNumber: number, callReceiptLife: receiptLife.Milliseconds(),
		callImmediate: len(c.immediate), callDepartures: len(c.departures), callWaiters: len(c.waiters),
		callRate: 0, callRatePer: 0, callMostWaiting: 0,
	}
	var margin int64
	for _, group := range [][]*waiter{c.immediate, c.waiters} {
		for _, w := range group {
			// Callers differ only around a reload. The longest margin is safe; of the
			// other values any one is.
			margin = max(margin, w.margin)
			head[callRate], head[callRatePer], head[callMostWaiting] = w.rate, w.ratePer, w.maxWaiting
		}
	}
	head[callMargin] = margin
	keys = slices.Clone(q.keys)
	args = make([]any, 0, callSize+departureSize*len(c.departures)+waiterSize*len(c.waiters))
	args = append(args, head[:]...)
	for _, d := range c.departures {
		group := [departureSize]any{departureTicket: d.ticket, departureOutcome: d.outcome, departureHolder: d.holder}
		args = append(args, group[:]...)
	}
	for _, w := range c.waiters {
		group := [waiterSize]any{
			waiterTicket: w.ticket, waiterArrival: w.arrival, waiterNeed: w.need,
			waiterOnce: 0, waiterMinTTL: w.minTTL, waiterHolder: w.holder, waiterTold: 0,
		}
		if w.told {
			group[waiterTold] = 1
		}
		if w.once != "" {
			keys = append(keys, w.once)
			group[waiterOnce] = len(keys)
		}
		args = append(args, group[:]...)
	}
	return keys, args
}

// decode reads the reply of take.lua: one answer for each waiter, then for each immediate one.
func (q *takeQueue) decode(c *takeCall, reply []string) ([]answer, error) {
	head := replyHead + 2*len(c.waiters)
	if len(reply) < head || len(reply) > head+len(c.immediate) {
		return nil, fmt.Errorf("pool: take answered %d values to %d callers", len(reply), len(c.waiters)+len(c.immediate))
	}
	now, err := strconv.ParseInt(reply[replyNow], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("pool: take answered no time: %w", err)
	}
	rateWait, err := strconv.ParseInt(reply[replyRateWait], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("pool: take answered no rate: %w", err)
	}
	limited := answer{err: &RateError{RetryAfter: time.Duration(rateWait) * time.Millisecond}}
	answers := make([]answer, 0, len(c.waiters)+len(c.immediate))
	for i, w := range c.waiters {
		said := reply[replyHead+2*i:]
		answers = append(answers, q.answer(w, said[0], said[1], now, limited))
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

// answer reads the answer of one waiter and its value.
func (q *takeQueue) answer(w *waiter, word, with string, now int64, limited answer) answer {
	switch word {
	case answerToken:
		source := FromPool
		if w.arrival != "" {
			source = FromWait
		}
		return q.token(w, with, now, source)
	case answerReplay:
		return q.token(w, with, now, FromReplay)
	case answerParked:
		w.arrival = with
		return answer{err: errParked}
	case answerHeld:
		w.arrival = with
		return answer{err: errParked, held: limited.err}
	case answerNone:
		return answer{err: errNothing}
	case answerFull:
		return answer{err: errFull}
	case answerConflict:
		return answer{err: ErrConflict}
	case answerLimited:
		return limited
	case answerFailed:
		return answer{err: readFailed(with)}
	}
	return answer{err: fmt.Errorf("pool: take answered %q", word)}
}

// token reads a token. Unless an Idempotency-Key owns it, it gets a number by which it can be
// returned once.
func (q *takeQueue) token(w *waiter, element string, now int64, source Source) answer {
	token, err := parseElement(element, now)
	token.Source = source
	if w.once == "" {
		token.identity, token.margin = q.id, time.Duration(w.margin)*time.Millisecond
		token.handout = q.tokens.replica + "-" + strconv.FormatInt(q.tokens.handouts.Add(1), 36)
	}
	return answer{token: token, err: err}
}
