package notify_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/events"
	"poold/internal/notify"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/targets"
	"poold/internal/testkit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// answers has the statuses of the first attempts of an event, by its text.
var answers = map[string]struct{ attempts, status int }{"gone": {9, 410}, "fails": {3, 500}, "busy": {1, 429},
	"moved": {1, 307}}

// webhook records the texts of the requests, or the actors of events without a known text.
type webhook struct {
	*httptest.Server

	mu   sync.Mutex
	seen []string
}

func newWebhook(t *testing.T) *webhook {
	w := new(webhook)
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var e events.Event
		mac := hmac.New(sha256.New, []byte("the-signing-secret"))
		mac.Write(body)
		if err := json.Unmarshal(body, &e); err != nil || r.Method != http.MethodPost || r.URL.Path != "/hook-path" ||
			r.Header.Get("Content-Type") != "application/json" ||
			r.UserAgent() != "poold/1.2" || r.Header.Get("X-Request-Id") != e.ID ||
			r.Header.Get("X-Poold-Signature") != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
			t.Errorf("%s %s %v %s", r.Method, r.URL, r.Header, body)
		}
		if strings.Contains(e.Text, "no token is handed out") {
			e.Text = e.Actor
		} else if !strings.HasPrefix(e.Text, "end") {
			e.Text, _, _ = strings.Cut(e.Text, " (this was at")
		}
		w.mu.Lock()
		w.seen = append(w.seen, e.Text)
		attempt := strings.Count(strings.Join(w.seen, " "), e.Text)
		w.mu.Unlock()
		if e.Text == "hangs" && attempt == 1 {
			<-r.Context().Done()
		} else if a := answers[e.Text]; attempt <= a.attempts {
			rw.Header().Set("Location", "/elsewhere")
			rw.WriteHeader(a.status)
		}
	}))
	t.Cleanup(w.Close)
	return w
}

// await waits for n requests.
func (w *webhook) await(t *testing.T, n int) (all []string) {
	testkit.Within(t, 3*time.Minute, "requests", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		all = slices.Clone(w.seen)
		return len(all) >= n
	})
	return all
}

// newReplica returns a replica that posts until the test ends.
func newReplica(t *testing.T, name, address string, log *testkit.Log) (*events.Log, *notify.Notifier) {
	db, err := redisdb.Open(redisdb.Options{Addresses: "redis://" + address, Prefix: "test", Log: log.Logger()})
	testkit.NoError(t, err)
	list := events.NewLog(db, log.Logger())
	n := &notify.Notifier{Events: list, DB: db, Replica: name, Version: "1.2", Log: log.Logger()}
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{db.Run, list.Run, n.Run} {
		running.Go(func() { _ = run(t.Context()) })
	}
	db.AwaitProbe(t.Context())
	t.Cleanup(func() { running.Wait(); _ = db.Close() })
	return list, n
}

func section(url string, kinds ...string) targets.Notify {
	return targets.Notify{URL: captcha.Secret(url + "/hook-path"), Secret: "the-signing-secret", Kinds: kinds}
}

// Two replicas post each event of the wanted kinds once, in order, and again until the webhook accepts or refuses it.
// An outage of the webhook is one warning, without the URL. If one replica ends, the other one goes on.
func TestEventsArriveOnce(t *testing.T) {
	t.Parallel()
	hook, log, address := newWebhook(t), new(testkit.Log), redistest.Server(t)
	list, one := newReplica(t, "one", address, log)
	_, two := newReplica(t, "two", address, log)
	former, _ := json.Marshal(events.Event{At: time.Now(), Kind: events.ProviderUp, Text: "former"})
	redistest.Do(t, address, "LPUSH", "test:events:{events}", "1000000000000000 "+string(former))
	list.Note(events.Event{Kind: events.ProviderUp, Text: "old", At: time.Now().Add(-61 * time.Minute)})
	list.Note(events.Event{Kind: events.TargetPaused, Text: "another kind"})
	for _, text := range strings.Fields("first fails busy moved gone hangs last") {
		list.Note(events.Event{Kind: events.ProviderDown, Text: text})
	}
	one.Apply(section("http://"+redistest.FreeAddress(t), "provider_down", "provider_up"))
	testkit.Within(t, 20*time.Second, "a warning",
		func() bool { return log.Count("level=WARN", "not delivered", "refused") == 1 && one.Trouble() != "" })
	one.Apply(section(hook.URL, "provider_down", "provider_up"))
	two.Apply(section(hook.URL, "provider_down", "provider_up"))
	hook.await(t, 13)
	one.Apply(targets.Notify{})
	late := time.Now().Add(-2 * time.Minute)
	list.Note(events.Event{Kind: events.ProviderUp, Text: "end", At: late})
	testkit.Equal(t, "posted", strings.Join(hook.await(t, 14), " "),
		"first fails fails fails fails busy busy moved moved gone hangs hangs last end (this was at "+
			late.UTC().Format(time.TimeOnly)+" UTC)")
	testkit.Equal(t, "trouble", one.Trouble()+two.Trouble(), "")
	if n := log.Count("level=WARN", "not delivered"); n != 5 || log.Count("level=WARN", "gone", "410", "dropped") != 1 ||
		log.Count("hook-path")+log.Count("signing") > 0 {
		t.Errorf("%d warnings of 5 outages:\n%s", n, log)
	}
}

// While Redis is away, each replica posts that, once, if the kind is wanted; and then that Redis serves again.
func TestRedisDown(t *testing.T) {
	t.Parallel()
	hook, log := newWebhook(t), new(testkit.Log)
	address, server := redistest.Process(t)
	for name, kinds := range map[string][]string{"one": {"redis_down", "redis_up"}, "two": {"redis_down"},
		"three": {"redis_up"}} {
		_, n := newReplica(t, name, address, log)
		n.Apply(section(hook.URL, kinds...))
	}
	began := time.Now()
	testkit.NoError(t, server.Signal(syscall.SIGSTOP))
	hook.await(t, 2)
	testkit.AtLeast(t, "time before the post", time.Since(began), 10*time.Second)
	time.Sleep(5 * time.Second) // two turns: nothing else is posted
	testkit.DeepEqual(t, "posted", slices.Sorted(slices.Values(hook.await(t, 2))), []string{"replica one", "replica two"})
	testkit.NoError(t, server.Signal(syscall.SIGCONT))
	ups := strings.Join(hook.await(t, 4)[2:], " ")
	if strings.Count(ups, "serves again") != 2 || !strings.Contains(ups, "one: ") || !strings.Contains(ups, "three: ") {
		t.Errorf("posted at the end: %s", ups)
	}
}

// The file accepts each kind of event.
func TestKindsAreThoseOfEvents(t *testing.T) {
	source, err := os.ReadFile("../events/event.go")
	testkit.NoError(t, err)
	kinds := regexp.MustCompile(`"[a-z]+_[a-z_]+"`).FindAllString(string(source), -1)
	_, err = targets.Parse("", []byte("notify: {url: 'https://h.example/', kinds: ["+strings.Join(kinds, ", ")+
		"]}\ntargets: {}\n"), targets.References{})
	if len(kinds) != 23 || strings.Contains(err.Error(), "kinds") {
		t.Errorf("%q: %v", kinds, err)
	}
}
