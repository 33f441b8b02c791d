package httpapi

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/httpapi/kernel"
	"poold/internal/ondemand"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// picture returns a picture of the given size. Pictures with different numbers are different.
func picture(number, bytes int) []byte {
	return append([]byte("\x89PNG\x0D\x0A\x1A\x0A"+fmt.Sprintf("%08d", number)), make([]byte, bytes-16)...)
}

// TestPicturesTakeRoom: pictures in flight take room in server.body_budget. If there is no room for
// a picture, its request gets a 503 and the picture is not read. Other requests continue, and ended
// requests free their room.
func TestPicturesTakeRoom(t *testing.T) {
	set := solvingSet(t, allKeys()...)
	set.Server.BodyBudget = 4 << 20
	d := start(t, set, nil, nil)
	release := make(chan struct{})
	var waiting atomic.Int64
	d.solver.token.Value = tokenValue
	d.solver.begun = func(ondemand.Request) { waiting.Add(1); <-release }
	ask := func(i int) answer {
		return d.solve(t, fmt.Sprintf(`{"type":"image","image":%q}`, base64.StdEncoding.EncodeToString(picture(i, 1<<20))), bearer(keyAll))
	}
	var callers sync.WaitGroup
	var mu sync.Mutex
	answers := map[int]int{}
	for i := range 12 {
		callers.Go(func() {
			a := ask(i)
			mu.Lock()
			defer mu.Unlock()
			answers[a.status]++
			if a.status == 200 {
				return
			}
			checkProblem(t, "beyond the budget", a, 503, kernel.CodeOverloaded, "")
			if retry, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || retry < 1 {
				t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
			}
		})
	}
	testkit.Within(t, 20*time.Second, "each picture waits or is refused", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return int(waiting.Load())+answers[503] == 12
	})
	// A picture takes 1 MiB during the wait, and a third more while its body is read.
	if n := waiting.Load(); n < 2 || n > 4 {
		t.Errorf("%d pictures of 1 MiB wait in a budget of 4 MiB", n)
	}
	d.fill(t, "staging-login", 1)
	d.takeOne(t, bearer(keyAll))
	close(release)
	callers.Wait()
	for i := range 3 {
		ask(100+i).check(t, "after they ended", 200)
	}
}

// TestPicturesOfClientsTakeRoom: a client's picture takes room until the task ends, not only until
// the response to the submission.
func TestPicturesOfClientsTakeRoom(t *testing.T) {
	set := solvingSet(t, allKeys()...)
	set.Server.BodyBudget = 4 << 20
	d := start(t, set, nil, nil)
	release := make(chan struct{})
	d.solver.token.Value = "some letters"
	d.solver.begun = func(r ondemand.Request) { r.Take.Parked(); <-release }
	submit := func(i int) answer {
		form := url.Values{"key": {keyAll}, "method": {"base64"}, "body": {base64.StdEncoding.EncodeToString(picture(i, 700<<10))}}
		return d.send(t, "POST", "/in.php", strings.NewReader(form.Encode()), isForm)
	}
	accepted := 0
	for i := range 10 {
		switch a := submit(i); {
		case strings.HasPrefix(a.body, "OK|"):
			accepted++
		case a.status != 503 || a.header.Get("Retry-After") == "":
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	// Each picture has 700 KiB, and takes at least 934 KiB while its body is read.
	if accepted < 3 || accepted > 5 {
		t.Errorf("%d pictures of 700 KiB wait in a budget of 4 MiB", accepted)
	}
	close(release)
	testkit.Within(t, 20*time.Second, "the tasks end and leave their room", func() bool { return strings.HasPrefix(submit(50).body, "OK|") })
	// The order contains the client's picture.
	if got := d.solver.last().Guest.Spec; string(got.Image) != string(picture(50, 700<<10)) || got.Identity.Picture.SHA256 == "" || got.ID != got.Identity.ID() {
		t.Errorf("bought with a picture of %d bytes, %q", len(got.Image), got.Identity.Picture.SHA256)
	}
}

func TestBodyBudgetIsReloaded(t *testing.T) {
	set := solvingSet(t)
	set.Server.BodyBudget = 1
	d := start(t, set, nil, nil)
	d.solver.token.Value = tokenValue
	body := fmt.Sprintf(`{"type":"image","image":%q}`, base64.StdEncoding.EncodeToString(picture(1, 100<<10)))
	checkProblem(t, "without room", d.solve(t, body), 503, kernel.CodeOverloaded, "")
	roomy := *set
	roomy.Server.BodyBudget = targets.Size(1 << 20)
	d.config.set.Store(&roomy)
	d.solve(t, body).check(t, "with room", 200)
}
