package kernel

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// testDay is a time with milliseconds, so that a test fails if the milliseconds are lost.
var testDay = time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)

// TestWrongKeysCountInTheLastMinute: only wrong keys of the last minute count. After the required
// wait a sender has one more try.
func TestWrongKeysCountInTheLastMinute(t *testing.T) {
	var w WrongKeys
	for i := range wrongKeysMost {
		if wait := w.Count("192.0.2.1:1", testDay.Add(time.Duration(i)*time.Second)); wait != 0 {
			t.Fatalf("wrong key %d waits %s", i+1, wait)
		}
	}
	for at, want := range map[time.Duration]time.Duration{20 * time.Second: 40 * time.Second, 59 * time.Second: time.Second} {
		if wait := w.Count("192.0.2.1:2", testDay.Add(at)); wait != want {
			t.Errorf("after %s: waits %s, want %s", at, wait, want)
		}
	}
	if wait := w.Count("192.0.2.1:3", testDay.Add(time.Minute)); wait != 0 {
		t.Errorf("a minute after the first: waits %s", wait)
	}
	if wait := w.Count("192.0.2.1:4", testDay.Add(time.Minute)); wait != time.Second {
		t.Errorf("a minute after the first, again: waits %s", wait)
	}
	if wait := w.Count("192.0.2.2:4", testDay.Add(time.Minute)); wait != 0 {
		t.Errorf("another address waits %s", wait)
	}
}

// TestManyAddressesTakeBoundedMemory: the memory for addresses is limited. Addresses without recent
// tries are removed, and addresses that find no room share one count.
func TestManyAddressesTakeBoundedMemory(t *testing.T) {
	var w WrongKeys
	from := func(i int) string {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], 0x0a000000+uint32(i))
		return netip.AddrPortFrom(netip.AddrFrom4(a), 1).String()
	}
	for i := range wrongKeysFrom {
		if wait := w.Count(from(i), testDay); wait != 0 {
			t.Fatal(i, wait)
		}
	}
	at := testDay.Add(wrongKeysTime - time.Millisecond)
	for i := range 3 * wrongKeysMost {
		if wait := w.Count(from(wrongKeysFrom+i), at); (wait > 0) != (i >= wrongKeysMost) {
			t.Fatalf("address %d of those without room: waits %s", i+1, wait)
		}
	}
	if wait := w.Count(from(7), at); wait != 0 {
		t.Errorf("one that is known waits %s", wait)
	}
	if n := len(w.tries); n > wrongKeysFrom+1 {
		t.Errorf("%d addresses are kept", n)
	}
	at = testDay.Add(wrongKeysTime + time.Second)
	if wait := w.Count(from(9999), at); wait != 0 || len(w.tries) != 3 { // the counts of this sender, of sender 7, and the shared count are kept
		t.Errorf("later: waits %s, %d addresses are kept", wait, len(w.tries))
	}
}

// TestWrongKeysCountConcurrently counts many wrong keys at the same time, so that the race detector
// can find races.
func TestWrongKeysCountConcurrently(t *testing.T) {
	var w WrongKeys
	var senders sync.WaitGroup
	var mu sync.Mutex
	passed := 0
	for range 8 {
		senders.Go(func() {
			for range 10 {
				if w.Count("192.0.2.1:1", testDay) == 0 {
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
