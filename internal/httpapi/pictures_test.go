package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/solve"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// picture returns a picture of the given size. Pictures with different numbers are different.
func picture(number, bytes int) []byte {
	return append([]byte("\x89PNG\x0D\x0A\x1A\x0A"+fmt.Sprintf("%08d", number)), make([]byte, bytes-16)...)
}

// TestPicturesAreLimited: a limited number of requests with pictures wait at a time, at POST /solve and
// as tasks of clients; one key can have three quarters of them. A further one is refused. Other requests continue, and
// a request or task that ends makes room.
func TestPicturesAreLimited(t *testing.T) {
	const keyOther = "the-key-of-another-caller"
	other := targets.Key{Name: "other", SHA256: sha256.Sum256([]byte(keyOther)),
		Scopes: []targets.Scope{targets.ScopeSolve}}
	set := solvingSet(t, append(allKeys(), other)...)
	set.Solve.Rate = targets.Rate{}
	d := start(t, set, nil, nil)
	d.pictures = solve.NewSemaphore(4)
	release := make(chan struct{})
	var waiting atomic.Int64
	d.solver.token.Value = "some letters"
	hold := func() {
		waiting.Add(1)
		<-release
	}
	d.solver.begun = func(solve.Request) { hold() }
	d.orders.begun = func(purchase.Spec) { hold() }
	encoded := func(i int) string { return base64.StdEncoding.EncodeToString(picture(i, 60<<10)) }
	solve := func(key string, i int) answer {
		return d.solve(t, fmt.Sprintf(`{"type":"image","image":%q}`, encoded(i)), bearer(key))
	}
	submit := func(i int) answer {
		form := url.Values{"key": {keyAll}, "method": {"base64"}, "body": {encoded(i)}}
		return d.send(t, "POST", "/in.php", strings.NewReader(form.Encode()), isForm)
	}
	var callers sync.WaitGroup
	for i := range 2 {
		callers.Go(func() { solve(keyAll, i).check(t, "a picture", 200) })
	}
	callers.Go(func() { submit(1000).check(t, "a client's picture", 200, "OK|") })
	testkit.Within(t, 20*time.Second, "each picture waits", func() bool { return waiting.Load() == 3 })
	checkProblem(t, "a solve of a key that has its share", solve(keyAll, 2000), 503, CodeOverloaded, "")
	callers.Go(func() { solve(keyOther, 2).check(t, "another key's picture", 200) })
	testkit.Within(t, 20*time.Second, "the last place is taken", func() bool { return waiting.Load() == 4 })
	a := solve(keyOther, 2000)
	checkProblem(t, "a solve without a place", a, 503, CodeOverloaded, "")
	a.checkRetry(t, "a solve without a place", 1, 3)
	submit(2001).check(t, "a client's submit", 200, "ERROR_NO_SLOT_AVAILABLE")
	d.fill(t, "staging-login", 1)
	d.takeOne(t, bearer(keyAll))
	close(release)
	callers.Wait()
	testkit.Within(t, 20*time.Second, "the tasks end", func() bool { return strings.HasPrefix(submit(3000).body, "OK|") })
	testkit.Within(t, 20*time.Second, "an order with the client's picture", func() bool {
		got := d.orders.specs.last()
		return string(got.Image) == string(picture(3000, 60<<10)) && got.Identity.Picture.SHA256 != "" &&
			got.ID == pool.Guest(got.Identity.ID())
	})
	solve(keyAll, 3001).check(t, "after they ended", 200)
}

// A picture may arrive more slowly than other bodies.
func TestPicturesMayArriveSlowly(t *testing.T) {
	set := solvingSet(t, allKeys()...)
	d := start(t, set, nil, func(s *http.Server) { s.ReadTimeout = 250 * time.Millisecond })
	d.solver.token.Value = "some letters"
	body, half := fmt.Sprintf(`{"type":"image","image":%q}`, base64.StdEncoding.EncodeToString(picture(1, 60<<10))), 1000
	pause := readerFunc(func([]byte) (int, error) { time.Sleep(500 * time.Millisecond); return 0, io.EOF })
	slow := io.MultiReader(strings.NewReader(body[:half]), pause, strings.NewReader(body[half:]))
	d.send(t, "POST", "/solve", slow, bearer(keyAll), isJSON).check(t, "a slow picture", 200)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// Without keys, or before the key is known, there are no other callers to protect.
func TestOnlyAKeyHasItsOwnShareOfThePlaces(t *testing.T) {
	for _, c := range []struct {
		caller *Caller
		want   string
	}{{nil, ""}, {Anyone, ""}, {&Caller{StableName: "a"}, "a"}} {
		testkit.Equal(t, "name in the places", (&Context{Caller: c.caller}).callerName(), c.want)
	}
}
