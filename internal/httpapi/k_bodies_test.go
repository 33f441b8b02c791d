package httpapi

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []bool
		b := &bodies{decoders: make(chan struct{}, 1), onMany: func(many bool) { said = append(said, many) }}
		one, two := &room{bodies: b, most: 100, holders: 1}, &room{bodies: b, most: 100, holders: 1}
		if one.resize(60) != nil || two.resize(41) == nil || two.resize(40) != nil || b.taken != 100 {
			t.Errorf("%d are taken", b.taken)
		}
		release := one.hold()
		one.release()
		if b.taken != 100 {
			t.Errorf("%d are taken while the room is held", b.taken)
		}
		release()
		release()
		if b.taken != 40 {
			t.Errorf("%d are taken", b.taken)
		}
		// One decodes at a time; a small body does not wait.
		busy, done := make(chan struct{}), make(chan error)
		go func() { _ = two.decode(t.Context(), func() { <-busy }) }()
		synctest.Wait()
		small := &room{bodies: b, most: 100, holders: 1}
		if err := small.decode(t.Context(), func() {}); err != nil {
			t.Error(err)
		}
		leaving, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		go func() { done <- two.decode(leaving, func() { t.Error("two decode at once") }) }()
		if err := <-done; err == nil {
			t.Error("it did not wait")
		}
		close(busy)
		synctest.Wait()
		if err := two.decode(t.Context(), func() {}); err != nil {
			t.Error(err)
		}
		two.release()
		if b.taken != 0 || len(said) > 0 {
			t.Errorf("%d are taken in the end, and many at times: %v", b.taken, said)
		}
		large := &room{bodies: b, most: 1 << 30, holders: 1}
		if large.resize(manyBodies) != nil || large.resize(manyBodies+1) != nil || large.resize(manyBodies+2) != nil {
			t.Error("there is no room")
		}
		large.release()
		if !slices.Equal(said, []bool{true, false}) {
			t.Errorf("many: %v", said)
		}
	})
}
