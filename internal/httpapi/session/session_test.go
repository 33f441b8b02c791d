package session

import (
	"crypto/sha256"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
)

var keys = []Key{{"admin", sha256.Sum256([]byte("one"))}, {"reader", sha256.Sum256([]byte("two"))}}

func open(t *testing.T, bubble *redistest.Bubble) *Signer {
	t.Helper()
	db, err := redisdb.Open(redisdb.Options{Addresses: "redis://embedded", Prefix: "captcha", Dial: bubble.Dial, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return New(db)
}

func inBubble(t *testing.T, test func(t *testing.T, bubble *redistest.Bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, redistest.InBubble(t)) })
}

func begin(t *testing.T, s *Signer, key Key) string {
	t.Helper()
	cookie, ends, err := s.Begin(t.Context(), key, time.Now())
	if left := time.Until(ends); err != nil || left > Life || left <= Life-time.Second {
		t.Fatalf("ends in %s, %v", left, err)
	}
	return cookie
}

func TestReplicasShareSessions(t *testing.T) {
	inBubble(t, func(t *testing.T, bubble *redistest.Bubble) {
		one, two := open(t, bubble), open(t, bubble)
		for i, key := range keys {
			cookie := begin(t, one, key)
			for _, s := range []*Signer{one, two} {
				if got := s.Find(t.Context(), cookie, keys, time.Now()); got != i {
					t.Errorf("%s: key %d, want %d", key.Name, got, i)
				}
			}
			if strings.Contains(cookie, key.Name) || strings.ContainsAny(cookie, "\";, \\") {
				t.Errorf("the cookie %q", cookie)
			}
		}
	})
}

func TestASessionEndsWithItsTimeAndItsKey(t *testing.T) {
	inBubble(t, func(t *testing.T, bubble *redistest.Bubble) {
		s := open(t, bubble)
		cookie := begin(t, s, keys[0])
		changed := Key{keys[0].Name, sha256.Sum256([]byte("another"))}
		for name, now := range map[string][]Key{"no keys": nil, "the other key": keys[1:], "another key of the same name": {changed}} {
			if got := s.Find(t.Context(), cookie, now, time.Now()); got != -1 {
				t.Errorf("%s: key %d", name, got)
			}
		}
		if got := s.Find(t.Context(), cookie, []Key{changed, keys[0]}, time.Now()); got != 1 {
			t.Errorf("two keys of one name: key %d, want 1", got)
		}
		time.Sleep(Life - 2*time.Second)
		if got := s.Find(t.Context(), cookie, keys, time.Now()); got != 0 {
			t.Errorf("before its end: key %d", got)
		}
		time.Sleep(2 * time.Second)
		if got := s.Find(t.Context(), cookie, keys, time.Now()); got != -1 {
			t.Errorf("after its end: key %d", got)
		}
	})
}

func TestAlteredCookiesAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, bubble *redistest.Bubble) {
		s := open(t, bubble)
		cookie := begin(t, s, keys[0])
		for i := range cookie {
			altered := cookie[:i] + "A" + cookie[i+1:]
			if altered == cookie {
				altered = cookie[:i] + "B" + cookie[i+1:]
			}
			// In the last character of the signature, four bits have no effect.
			if got := s.Find(t.Context(), altered, keys, time.Now()); got != -1 && i != len(cookie)-1 {
				t.Errorf("byte %d altered: key %d", i, got)
			}
		}
		for _, bad := range []string{"", ".", "..", "a.b.c", "YWRtaW4.9999999999.", "YWRtaW4.9999999999", strings.Repeat(".", 5000)} {
			if got := s.Find(t.Context(), bad, keys, time.Now()); got != -1 {
				t.Errorf("%.20q: key %d", bad, got)
			}
		}
	})
}

// A replica that has read the secret accepts sessions even while Redis is down. New sessions cannot
// begin in this time.
func TestSessionsWhileRedisIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T, bubble *redistest.Bubble) {
		one, two := open(t, bubble), open(t, bubble)
		cookie := begin(t, one, keys[0])
		bubble.SetDown(true)
		if got := one.Find(t.Context(), cookie, keys, time.Now()); got != 0 {
			t.Errorf("known secret: key %d", got)
		}
		if got := two.Find(t.Context(), cookie, keys, time.Now()); got != -1 {
			t.Errorf("unknown secret: key %d", got)
		}
		if _, _, err := one.Begin(t.Context(), keys[0], time.Now()); err == nil {
			t.Error("a session began")
		}
		bubble.SetDown(false)
		time.Sleep(rereadAfter)
		if got := two.Find(t.Context(), cookie, keys, time.Now()); got != 0 {
			t.Errorf("after the outage: key %d", got)
		}
	})
}

// After Redis has lost the secret, all replicas accept each session that begins afterwards.
func TestALostSecretIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, bubble *redistest.Bubble) {
		one, two := open(t, bubble), open(t, bubble)
		old := begin(t, one, keys[0])
		if got := two.Find(t.Context(), old, keys, time.Now()); got != 0 {
			t.Fatalf("key %d", got)
		}
		bubble.FlushAll()
		cookie := begin(t, one, keys[0])
		time.Sleep(rereadAfter)
		if got := two.Find(t.Context(), cookie, keys, time.Now()); got != 0 {
			t.Errorf("the new session: key %d", got)
		}
		for _, s := range []*Signer{one, two} {
			if got := s.Find(t.Context(), old, keys, time.Now()); got != -1 {
				t.Errorf("the old session: key %d", got)
			}
		}
		if ttl := bubble.TTL("captcha:session:secret"); ttl <= Life || ttl > secretLife {
			t.Errorf("the secret lives for %s", ttl)
		}
	})
}
