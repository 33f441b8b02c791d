package pool

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb"
)

// Claims are the solves that equal requests share, and what sharing saved.
type Claims struct {
	*client

	news  *news
	times ClaimTimes
}

// Enter asks for the solve of a key: it shares the token of one, learns who is at it, or
// makes this replica the one that solves. A replica that waits enters again until the
// solve has ended. Where a token is in the answer, its callers are counted as shared.
func (s *Claims) Enter(ctx context.Context, e ClaimEntry) (Claim, error) {
	k, call := s.claim(e.Key), rand.Text()
	reply, err := s.db.Eval(ctx, s.scripts.claim.enter, []string{k.claim, k.token, k.failure, s.today(), s.counted(call)},
		e.Solve, call, string(e.Identity), e.Callers, s.times.Lease.Milliseconds(), s.times.Longest.Milliseconds(),
		s.times.Solved.Milliseconds(), s.times.Failed.Milliseconds())
	if err != nil {
		return Claim{}, err
	}
	return readClaim(reply)
}

// readClaim reads the answer of claim_enter.lua.
func readClaim(reply any) (Claim, error) {
	list, ok := reply.([]any)
	if !ok || len(list) != 7 {
		return Claim{}, fmt.Errorf("pool: enter answered %T with %d values", reply, len(list))
	}
	text := func(i int) string { s, _ := list[i].(string); return s }
	number := func(i int) int64 { n, _ := list[i].(int64); return n }
	c := Claim{
		State: ClaimState(text(0)), Solve: text(1), Fence: number(2), Identity: captcha.ID(text(3)),
		Left: time.Duration(number(4)) * time.Millisecond,
	}
	if known := number(5) == 1; known {
		c.Value = []byte(text(6))
	}
	return c, nil
}

// Hold renews the lease of a claim that this replica holds, and notes whose stock its
// solve takes from. The claim is not its own any more where another one holds it, where
// the solve ended, or where it is under way for ClaimLongest. wanted says whether some
// replica asked for it lately.
func (s *Claims) Hold(ctx context.Context, key captcha.ID, fence int64, identity captcha.ID) (mine, wanted bool, err error) {
	reply, err := s.db.Eval(ctx, s.scripts.claim.hold, []string{s.claim(key).claim}, fence, string(identity),
		s.times.Lease.Milliseconds(), s.times.Wanted.Milliseconds(), s.times.Longest.Milliseconds())
	if err != nil {
		return false, false, err
	}
	n, err := redisdb.Integers(reply, 2)
	if err != nil {
		return false, false, err
	}
	return n[0] == 1, n[1] == 1, nil
}

// LetGo ends the lease of a claim that this replica holds, so that who enters next goes
// on with the same solve. Where the claim is another's it does nothing.
func (s *Claims) LetGo(ctx context.Context, key captcha.ID, fence int64, identity captcha.ID) error {
	_, err := s.db.Eval(ctx, s.scripts.claim.hold, []string{s.claim(key).claim}, fence, string(identity),
		0, s.times.Wanted.Milliseconds(), s.times.Longest.Milliseconds())
	if err == nil {
		s.news.announce(ctx, key)
	}
	return err
}

// End ends the solve of a claim and wakes those who wait for it, at all replicas. It
// returns false and changes nothing where the claim is not this holder's (see Hold). It
// may be called again with the same end, within ClaimSolved.
func (s *Claims) End(ctx context.Context, key captcha.ID, fence int64, e ClaimEnd) (ok bool, err error) {
	k, failed, lasts := s.claim(key), 0, min(e.Lasts, s.times.Solved)
	if e.Failed {
		failed, lasts = 1, s.times.Failed
	}
	n, err := s.db.Number(ctx, s.scripts.claim.end, []string{k.claim, k.token, k.failure}, fence, failed, e.Value,
		lasts.Milliseconds(), s.times.Longest.Milliseconds(), s.times.Solved.Milliseconds(), s.db.Channel(), string(key))
	if err != nil || n == 0 {
		return false, err
	}
	s.news.changed(key)
	return true, nil
}
