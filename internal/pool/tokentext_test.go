package pool

import (
	"fmt"
	"testing"
	"time"

	"poold/internal/captcha"
)

// The text of a landed token stays the same in the stock, in a receipt and in a repeated take. The
// tested texts include the text of a picture, JSON, and texts that look like parts of a list
// element. If Landing.Repeats is set, two tokens with the same text land.
func testTokenTextsAreUnchanged(t *testing.T, o Options) {
	s, id := open(t, o), identity("texts")
	n := 0
	settle := func(l Landing) EndResult {
		t.Helper()
		n++
		l.Ref, l.Provider, l.Lifetime = Ref{id, fmt.Sprint("order", n)}, "p", time.Minute
		placeOrder(t, s, Order{Ref: l.Ref, Depth: 100, TTL: time.Minute})
		how, err := s.Settle(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		return how
	}
	for i, text := range []string{
		"two words", " a space at both ends ", "zwei wörter 二", "line\nline\r\n", "\x00\xff", "%", "100|", "|a|b|c|d|e|",
		"1767323045000|1767323040000|order|p||text", "1000|" + fmt.Sprint(time.Now().UnixMilli()), "0", "",
		`{"geetest_challenge":"c","geetest_seccode":"v|jordan","geetest_validate":"v"}`,
		"challenge:c,validate:v,seccode:v|jordan",
	} {
		if how := settle(Landing{Value: text}); how != Ended {
			t.Fatalf("%q: %v", text, how)
		}
		request := Request{ID: id, Idempotency: fmt.Sprint("caller\x00", i)}
		if i%2 == 1 { // an immediate take; the other takes have a key
			request.Idempotency = ""
		}
		got := take(t, s, request, 1)[0]
		if got.Value != text {
			t.Errorf("%q was handed out as %q", text, got.Value)
		}
		if request.Idempotency == "" {
			giveBack(t, s, got)
		}
		if again := take(t, s, request, 1)[0]; again.Value != text || again.ID != got.ID {
			t.Errorf("%q was handed out again as %q", text, again.Value)
		}
	}
	before := look(t, s, id).Figures
	for range 2 {
		if how := settle(Landing{Value: "the same", Repeats: true}); how != Ended {
			t.Errorf("a text that may come again: %v", how)
		}
	}
	for _, token := range take(t, s, Request{ID: id}, 2) {
		if token.Value != "the same" {
			t.Errorf("handed out %q", token.Value)
		}
	}
	if how := settle(Landing{Value: "the same"}); how != Ended {
		t.Errorf("nothing is remembered of a text that may come again, and yet: %v", how)
	}
	f := look(t, s, id).Figures
	if f.Solved != before.Solved+3 || f.Failed != 0 {
		t.Errorf("%+v, before %+v", f, before)
	}
	balanced(t, look(t, s, id))
}

// The same text may land again when its token is dead, but not earlier.
func TestTextsMayRepeatAfterTheTokenDied(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		sold := func(order, text string, lifetime time.Duration, want EndResult) {
			t.Helper()
			place(t, s, id, order)
			if how, err := s.Settle(t.Context(), Landing{Ref: Ref{id, order}, Value: text, Lifetime: lifetime}); err != nil || how != want {
				t.Errorf("%s: %v, %v", order, how, err)
			}
		}
		sold("a", "short", 10*time.Second, Ended)
		sold("b", "long", 100*time.Second, Ended)
		time.Sleep(10*time.Second - time.Millisecond)
		sold("c", "short", 10*time.Second, Repeated)
		if got := ttl(t, s, s.keys(id).sale+"c"); got != time.Minute {
			t.Errorf("the answer to it is kept for %v", got)
		}
		time.Sleep(time.Millisecond)
		sold("d", "short", 10*time.Second, Ended)
		sold("e", "long", 100*time.Second, Repeated)
	})
}
