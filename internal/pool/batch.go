package pool

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// batch is one script call.
type batch struct {
	plain   []*asker
	askers  []*asker
	leaving []leaver
	failed  bool // its callers were told ErrDown: what comes back belongs to nobody
}

// admit takes those into the call for whom there is room and returns the others.
func (b *batch) admit(queue []*asker) []*asker {
	for i, a := range queue {
		switch {
		case a.done:
			continue
		case a.plain() && len(b.plain) < mostPlain:
			b.plain = append(b.plain, a)
		case !a.plain() && len(b.askers) < mostAskers:
			b.askers = append(b.askers, a)
		default:
			return queue[i:]
		}
		a.asked = true
	}
	return nil
}

// encode makes the keys and arguments of take.lua.
func (l *line) encode(b *batch, number int64) (keys []string, args []any) {
	var margin, window int64
	var rate, most int
	for _, group := range [][]*asker{b.plain, b.askers} {
		for _, a := range group {
			// They differ only around a reload: the longest margin is safe, and
			// of the others any is as good.
			margin = max(margin, a.margin)
			rate, window, most = a.rate, a.window, a.maxWaiting
		}
	}
	keys = []string{l.keys.tokens, l.keys.tickets, l.keys.seen, l.keys.stats, l.keys.last, l.keys.rate, l.keys.junk}
	args = make([]any, 0, 9+3*len(b.leaving)+6*len(b.askers))
	args = append(args, number, receiptLife.Milliseconds(), margin, rate, window, most,
		len(b.plain), len(b.leaving))
	for _, leaver := range b.leaving {
		missed := 0
		if leaver.missed {
			missed = 1
		}
		args = append(args, leaver.ticket, missed, leaver.holder)
	}
	args = append(args, len(b.askers))
	for _, a := range b.askers {
		receipt := 0
		if a.once != "" {
			keys = append(keys, a.once)
			receipt = len(keys)
		}
		args = append(args, a.ticket, a.arrival, a.need, receipt, a.minTTL, l.holder(a))
	}
	return keys, args
}

// read translates a script's answer into one result per asker, the plain ones
// last.
func (l *line) read(b *batch, text []string) ([]answer, error) {
	if len(text) < 2+len(b.askers) || len(text) > 2+len(b.askers)+len(b.plain) {
		return nil, fmt.Errorf("pool: take answered %d values for %d callers", len(text), len(b.askers)+len(b.plain))
	}
	now, err := strconv.ParseInt(text[0], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("pool: take answered no time: %w", err)
	}
	refused, err := strconv.ParseInt(text[1], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("pool: take answered no rate: %w", err)
	}
	limited := answer{err: &RateError{RetryAfter: time.Duration(refused) * time.Millisecond}}
	results := make([]answer, 0, len(b.askers)+len(b.plain))
	for i, a := range b.askers {
		results = append(results, l.result(a, text[2+i], now, limited))
	}
	for i := range b.plain {
		switch at := 2 + len(b.askers) + i; {
		case at < len(text):
			results = append(results, l.token(b.plain[i], text[at], now, FromPool))
		case refused > 0:
			results = append(results, limited)
		default:
			results = append(results, answer{err: errNothing})
		}
	}
	return results, nil
}

// result reads one asker's answer; take.lua says what the letters mean.
func (l *line) result(a *asker, text string, now int64, limited answer) answer {
	if text == "" {
		return answer{err: errors.New("pool: take answered nothing for a caller")}
	}
	switch letter, rest := text[0], text[1:]; letter {
	case 'T':
		source := FromPool
		if a.arrival != "" {
			source = FromWait
		}
		return l.token(a, rest, now, source)
	case 'R':
		return l.token(a, rest, now, FromReplay)
	case 'W':
		a.arrival = rest
		return answer{err: errParked}
	case 'V':
		a.arrival = rest
		return answer{err: errParked, held: limited.err}
	case 'E':
		return answer{err: errNothing}
	case 'F':
		return answer{err: errFull}
	case 'C':
		return answer{err: ErrConflict}
	case 'L':
		return limited
	}
	return answer{err: fmt.Errorf("pool: take answered %q", text[:1])}
}

// token reads a token; one that may be returned gets a name for this hand-out.
func (l *line) token(a *asker, element string, now int64, source Source) answer {
	token, err := parseElement(element, now)
	token.Source = source
	if a.once == "" {
		token.identity, token.margin = l.id, time.Duration(a.margin)*time.Millisecond
		token.handout = l.tokens.replica + "-" + strconv.FormatInt(l.tokens.handouts.Add(1), 36)
	}
	return answer{token: token, err: err}
}
