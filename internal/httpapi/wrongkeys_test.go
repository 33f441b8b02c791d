package httpapi

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"
)

// TestGuessing: after twenty wrong keys in a minute their address is told to wait;
// a right key from there is served all the time, and no key at all is no guess.
func TestGuessing(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.fill(t, "staging-login", 3)
	const path = "/pool/staging-login/token"
	for range 30 {
		checkProblem(t, "no key", d.ask(t, "GET", path), 401, codeUnauthorized, "")
		checkProblem(t, "an empty one", d.ask(t, "GET", path, bearer("")), 401, codeUnauthorized, "")
	}
	for i := range wrongKeysMost {
		header := []string{bearer(fmt.Sprint("wrong", i)), basic(fmt.Sprint("wrong", i))}[i%2]
		checkProblem(t, "wrong", d.ask(t, "GET", path, header), 401, codeUnauthorized, "")
		if i == 10 {
			d.takeOne(t, bearer(keyAll))
		}
	}
	for _, headers := range [][]string{
		{bearer("wrong")}, {basic("wrong")},
		{bearer("wrong"), "X-Forwarded-For: 192.0.2.1", "Forwarded: for=192.0.2.1", "X-Real-IP: 192.0.2.1"}, // anybody can write that
	} {
		a := d.ask(t, "GET", path, headers...)
		checkProblem(t, "one more", a, 429, codeRateLimited, "")
		if retry, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || retry < 30 || retry > 60 {
			t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
		}
	}
	d.takeOne(t, bearer(keyAll))
	d.takeOne(t, basic(keyAll))
	if a := d.ask(t, "GET", "/status", bearer(keyStatus)); a.status != 200 {
		t.Errorf("another right key: %d", a.status)
	}
	checkProblem(t, "no key", d.ask(t, "GET", path), 401, codeUnauthorized, "")
	for _, open := range []string{"/healthz", "/status.css"} {
		if a := d.ask(t, "GET", open, bearer("wrong")); a.status != 200 {
			t.Errorf("%s needs no key: %d", open, a.status)
		}
	}
}

// TestWrongKeysSlide: it is the last minute that counts, and who is told to wait
// and does gets another try.
func TestWrongKeysSlide(t *testing.T) {
	var w wrongKeys
	for i := range wrongKeysMost {
		if wait := w.count("192.0.2.1:1", day.Add(time.Duration(i)*time.Second)); wait != 0 {
			t.Fatalf("wrong key %d waits %s", i+1, wait)
		}
	}
	for at, want := range map[time.Duration]time.Duration{20 * time.Second: 40 * time.Second, 59 * time.Second: time.Second} {
		if wait := w.count("192.0.2.1:2", day.Add(at)); wait != want {
			t.Errorf("after %s: waits %s, want %s", at, wait, want)
		}
	}
	if wait := w.count("192.0.2.1:3", day.Add(time.Minute)); wait != 0 {
		t.Errorf("a minute after the first: waits %s", wait)
	}
	if wait := w.count("192.0.2.1:4", day.Add(time.Minute)); wait != time.Second {
		t.Errorf("a minute after the first, again: waits %s", wait)
	}
	if wait := w.count("192.0.2.2:4", day.Add(time.Minute)); wait != 0 {
		t.Errorf("another address waits %s", wait)
	}
}

// TestWhatIsOneAddress: the port does not count, and of IPv6 half of the address.
func TestWhatIsOneAddress(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:1": "192.0.2.1/32", "[::ffff:192.0.2.1]:9": "192.0.2.1/32", "[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1": "fe80::/64", "[::1]:1": "::/64", "@": "invalid Prefix", "": "invalid Prefix", "192.0.2.1": "invalid Prefix",
	} {
		if got := network(remote).String(); got != want {
			t.Errorf("%q: %s, want %s", remote, got, want)
		}
	}
}

// TestManyAddresses: memory is bounded, addresses that stopped make room, and those
// without room count together.
func TestManyAddresses(t *testing.T) {
	var w wrongKeys
	from := func(i int) string {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], 0x0a000000+uint32(i))
		return netip.AddrPortFrom(netip.AddrFrom4(a), 1).String()
	}
	for i := range wrongKeysFrom {
		if wait := w.count(from(i), day); wait != 0 {
			t.Fatal(i, wait)
		}
	}
	at := day.Add(wrongKeysTime - time.Millisecond)
	for i := range 3 * wrongKeysMost {
		if wait := w.count(from(wrongKeysFrom+i), at); (wait > 0) != (i >= wrongKeysMost) {
			t.Fatalf("address %d of those without room: waits %s", i+1, wait)
		}
	}
	if wait := w.count(from(7), at); wait != 0 {
		t.Errorf("one that is known waits %s", wait)
	}
	if n := len(w.tries); n > wrongKeysFrom+1 {
		t.Errorf("%d addresses are kept", n)
	}
	at = day.Add(wrongKeysTime + time.Second)
	if wait := w.count(from(9999), at); wait != 0 || len(w.tries) != 3 { // with it: 7, and those without room
		t.Errorf("later: waits %s, %d addresses are kept", wait, len(w.tries))
	}
}

// TestWrongKeysAtOnce is for the race detector.
func TestWrongKeysAtOnce(t *testing.T) {
	var w wrongKeys
	var senders sync.WaitGroup
	var mu sync.Mutex
	passed := 0
	for range 8 {
		senders.Go(func() {
			for range 10 {
				if w.count("192.0.2.1:1", day) == 0 {
					mu.Lock()
					passed++
					mu.Unlock()
				}
			}
		})
	}
	senders.Wait()
	if passed != wrongKeysMost {
		t.Errorf("%d of 80 passed", passed)
	}
}
