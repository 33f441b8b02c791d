package kernel

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestRoomIsFreedByItsLastHolder: the room of a body stays in use until its last holder releases
// it.
func TestRoomIsFreedByItsLastHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []bool
		b := &Bodies{decoders: make(chan struct{}, 1), onMany: func(many bool) { said = append(said, many) }}
		one, two := &Room{bodies: b, most: 100, holders: 1}, &Room{bodies: b, most: 100, holders: 1}
		if one.Resize(60) != nil || two.Resize(41) == nil || two.Resize(40) != nil || b.taken != 100 {
			t.Errorf("%d are taken", b.taken)
		}
		release := one.Hold()
		one.Release()
		if b.taken != 100 {
			t.Errorf("%d are taken while the room is held", b.taken)
		}
		release()
		release()
		if b.taken != 40 {
			t.Errorf("%d are taken", b.taken)
		}
		// Only one large body is decoded at a time. A small body does not wait for a large one.
		busy, done := make(chan struct{}), make(chan error)
		go func() { _ = two.Decode(t.Context(), func() { <-busy }) }()
		synctest.Wait()
		small := &Room{bodies: b, most: 100, holders: 1}
		if err := small.Decode(t.Context(), func() {}); err != nil {
			t.Error(err)
		}
		leaving, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		go func() { done <- two.Decode(leaving, func() { t.Error("two decode at once") }) }()
		if err := <-done; err == nil {
			t.Error("it did not wait")
		}
		close(busy)
		synctest.Wait()
		if err := two.Decode(t.Context(), func() {}); err != nil {
			t.Error(err)
		}
		two.Release()
		if b.taken != 0 || len(said) > 0 {
			t.Errorf("%d are taken in the end, and many at times: %v", b.taken, said)
		}
		large := &Room{bodies: b, most: 1 << 30, holders: 1}
		if large.Resize(manyBodies) != nil || large.Resize(manyBodies+1) != nil || large.Resize(manyBodies+2) != nil {
			t.Error("there is no room")
		}
		large.Release()
		if !slices.Equal(said, []bool{true, false}) {
			t.Errorf("many: %v", said)
		}
	})
}
