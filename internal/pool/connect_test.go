package pool

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"poold/internal/redisdb/redistest"
)

// A store also works over a unix socket and over TLS. On these connections, too, no token is lost
// with a lost reply or a broken connection.
func TestUnixSocketAndTLS(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "redis.sock")
	redistest.Server(t, "--unixsocket", socket)
	dir := redistest.Certificates(t)
	// From here on, this process trusts only this certificate: Go reads SSL_CERT_FILE only once.
	t.Setenv("SSL_CERT_FILE", filepath.Join(dir, "cert.pem"))
	_, port, err := net.SplitHostPort(redistest.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	redistest.Server(t, "--tls-port", port, "--tls-cert-file", filepath.Join(dir, "cert.pem"),
		"--tls-key-file", filepath.Join(dir, "key.pem"), "--tls-ca-cert-file", filepath.Join(dir, "cert.pem"),
		"--tls-auth-clients", "no")
	for _, way := range []struct {
		address string
		secure  func(net.Conn) net.Conn // does what go-redis' own dialer does
	}{
		{"unix://" + socket, func(conn net.Conn) net.Conn { return conn }},
		{"rediss://127.0.0.1:" + port, func(conn net.Conn) net.Conn {
			return tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS12, ServerName: "127.0.0.1"})
		}},
	} {
		plain, id := open(t, Options{Addresses: way.address, Prefix: "test"}), identity("a")
		stock(t, plain, id, 1, 0, time.Minute)
		if _, err := plain.Take(t.Context(), Request{ID: id}); err != nil {
			t.Errorf("%s: %v", way.address, err)
		}
		thief := thiefOfTakes(plain)
		var mu sync.Mutex
		var conns []net.Conn
		dial := thief.Over(func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			conns = append(conns, conn)
			return way.secure(conn), nil
		})
		faulty := open(t, Options{Addresses: way.address, Prefix: "test", Dial: dial})
		pushed := stock(t, plain, id, 150, 0, 10*time.Minute)
		taken := map[string]int{}
		var takers sync.WaitGroup
		for range 4 {
			takers.Go(func() {
				for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
					token, err := faulty.Take(t.Context(), Request{ID: id})
					mu.Lock()
					if err == nil {
						taken[token.Value]++
					}
					if len(taken)%10 == 9 { // while calls are in flight
						for _, conn := range conns {
							_ = conn.Close()
						}
						conns = nil
					}
					all := len(taken) == len(pushed)
					mu.Unlock()
					if all {
						return
					}
				}
			})
		}
		takers.Wait()
		for _, value := range pushed {
			if taken[value] != 1 {
				t.Errorf("%s: a token was handed out %d times", way.address, taken[value])
			}
		}
		if len(taken) != len(pushed) || thief.Stolen() == 0 {
			t.Errorf("%s: took %d of %d, %d replies stolen", way.address, len(taken), len(pushed), thief.Stolen())
		}
	}
}

// Every key of a store has a TTL.
func TestEveryKeyHasATTL(t *testing.T) {
	options := Options{Addresses: "redis://" + redistest.Server(t), Prefix: "ttl"}
	s, id := open(t, options), identity("ttl")
	stock(t, s, id, 3, 0, time.Minute)
	order := Ref{id, "underway"}
	placeOrder(t, s, Order{Ref: order, Depth: 9, TTL: time.Minute, PerDay: 5})
	expect(t, time.Duration(0))(s.Book(t.Context(), Overall, order, Caps{PerDay: 5}, 0))
	expect(t, true)(s.ClaimTask(t.Context(), "p", "4711", order, time.Minute))
	first, err := s.Take(t.Context(), Request{ID: id, Rate: 10, RatePer: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	giveBack(t, s, first)
	got, err := s.Take(t.Context(), Request{ID: id, Idempotency: "k"})
	if err != nil {
		t.Fatal(err)
	}
	must(t, s.Bind(t.Context(), "key", id, time.Minute))
	if _, err := s.Report(t.Context(), id, got.ID, "", true); err != nil {
		t.Fatal(err)
	}
	expect(t, true)(s.FirstHolder(t.Context(), id, got, "1"))
	take(t, s, Request{ID: id}, 1)
	must(t, s.Pause(t.Context(), id, Pause{}))
	must(t, s.Remember(t.Context(), id, []byte{1, 0, 2}))
	if learned, err := s.Recall(t.Context(), id); err != nil || !bytes.Equal(learned, []byte{1, 0, 2}) {
		t.Fatalf("recalled %v, %v", learned, err)
	}
	if learned, err := s.Recall(t.Context(), identity("none")); err != nil || learned != nil {
		t.Fatalf("recalled %v, %v of nothing", learned, err)
	}
	if _, _, err := s.Heartbeat(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	must(t, s.Share(t.Context(), id, []byte("ok")))
	waiter := parkOne(t, s, Request{ID: id, MinTTL: time.Hour, Wait: 20 * time.Second, MaxWaiting: 5})
	refused := identity("refused")
	if reply, err := call(t, s, asking(refused)); err != nil || reply[2] != "parked" {
		t.Fatal(reply, err)
	}
	place(t, s, refused, "failed")
	fail(t, s, refused, "failed", "x")
	keys, err := s.db.Slow.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, key := range keys {
		kinds[strings.Split(key, ":")[1]] = true
		if ttl := s.db.Slow.PTTL(t.Context(), key).Val(); ttl <= 0 {
			t.Errorf("%s has the TTL %v", key, ttl)
		}
	}
	listed := []string{"pool", "orders", "journal", "leases", "spend", "tickets", "seen", "stats", "leads", "verdicts",
		"sold", "bound", "mind", "paused", "rate", "last", "once", "back", "first", "task", "secret", "values", "probe", "replicas", "status", "untold", "hour"}
	for _, kind := range listed {
		if !kinds[kind] {
			t.Errorf("no key of the kind %s was made: %v", kind, keys)
		}
	}
	readme, err := os.ReadFile("lua/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for kind := range kinds {
		if kind != "probe" && !strings.Contains(string(readme), "| `captcha:"+kind) {
			t.Errorf("lua/README.md does not list the keys of the kind %s", kind)
		}
	}
	s.EndWaits()
	<-waiter
}
