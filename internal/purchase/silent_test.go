package purchase

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/provider"
)

// Callbacks that arrive during an outage of Redis are kept on disk, and polling finds
// the tokens before they are replayed. They have arrived all the same, at whichever replica.
func TestCallbacksThatWereKeptAreNotMissing(t *testing.T) {
	for _, where := range []string{"at this replica", "at another replica"} {
		runBubble(t, where, func(t *testing.T) {
			s := newCallbackBuyer(t, filepath.Join(t.TempDir(), "letters"))
			called := s
			if where == "at another replica" {
				called = s.replica(filepath.Join(t.TempDir(), "letters"))
				called.reload(calling("first"))
			}
			tasks := 0
			s.provider.submit = func(context.Context) (string, error) {
				tasks++
				return fmt.Sprint("t", tasks), nil
			}
			const orders = silentAfter + 1
			var addresses []string
			var ended []<-chan Result
			for range orders {
				o := s.order(t)
				addresses = append(addresses, o.address())
				ended = append(ended, s.collecting(t, o))
			}
			time.Sleep(30 * time.Second)
			s.stock.away("")
			for i, address := range addresses {
				called.mustCall(t, callbackTo(address, fmt.Sprintf("id=t%d&code=03AFcallback-%d", i+1, i)))
			}
			if n := called.buyer.DeadLetterCount(); n != orders {
				t.Fatalf("%d of %d callbacks were kept", n, orders)
			}
			letters, err := called.buyer.DeadLetters()
			if err != nil || len(letters) != orders || letters[0].Reason != "redis does not answer" {
				t.Errorf("listed: %+v, %v", letters, err)
			}
			time.Sleep(30 * time.Second)
			synctest.Wait()
			if s.provider.polls < orders {
				t.Fatalf("%d polls for %d orders, whose callbacks Redis did not take", s.provider.polls, orders)
			}
			s.stock.change(func() { s.stock.fault = nil })
			for _, end := range ended {
				if r := <-end; r.Outcome != Solved {
					t.Errorf("collect = %v, %v, want a token", r.Outcome, r.Err)
				}
			}
			called.mustReplay(t, Replayed{Dropped: orders})
			if s.buyer.Providers(boundedCtx(t), time.Now())[0].Silent {
				t.Error("callbacks that were kept on disk count as if they had not arrived")
			}
		})
	}
}

// A callback that brings nothing of use, so that its task is polled, has arrived.
func TestCallbacksOfNoUseAreNotMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCallbackBuyer(t, "no letters")
		tasks := 0
		s.provider.submit = func(context.Context) (string, error) {
			tasks++
			return fmt.Sprint("t", tasks), nil
		}
		s.provider.poll = func(_ context.Context, n int) (provider.Solution, error) {
			return provider.Solution{Token: fmt.Sprint("03AFpolled-", n)}, nil
		}
		var addresses []string
		var ended []<-chan Result
		for range silentAfter {
			o := s.order(t)
			addresses = append(addresses, o.address())
			ended = append(ended, s.collecting(t, o))
		}
		for _, address := range addresses {
			s.mustCall(t, callbackTo(address, "id=another&code=03AFcallback"))
		}
		for _, end := range ended {
			if r := <-end; r.Outcome != Solved {
				t.Errorf("collect = %v, %v, want a token", r.Outcome, r.Err)
			}
		}
		if s.buyer.Providers(boundedCtx(t), time.Now())[0].Silent {
			t.Error("callbacks about other tasks count as if none had arrived")
		}
	})
}
