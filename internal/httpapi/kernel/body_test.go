package kernel

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLargeBodiesAreDecodedInTurn: with one decoder, one large body is decoded at a time. A small
// body does not wait for a large one.
func TestLargeBodiesAreDecodedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pictures{inUse: make(chan struct{}, 2), decoders: make(chan struct{}, 1)}
		read := func(ctx context.Context, bytes int, decode func([]byte)) error {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(ctx, "POST", "/solve", strings.NewReader(strings.Repeat("x", bytes)))
			release, err := p.Read(r, &Call{W: Writer{ResponseWriter: w}}, 1<<20, decode)
			release()
			return err
		}
		busy := make(chan struct{})
		go func() { _ = read(t.Context(), MaxBody+1, func([]byte) { <-busy }) }()
		synctest.Wait()
		if err := read(t.Context(), MaxBody, func([]byte) {}); err != nil {
			t.Error(err)
		}
		leaving, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if err := read(leaving, MaxBody+1, func([]byte) { t.Error("two decode at once") }); err == nil {
			t.Error("it did not wait")
		}
		close(busy)
		synctest.Wait()
		if err := read(t.Context(), MaxBody+1, func([]byte) {}); err != nil || len(p.inUse) != 0 {
			t.Errorf("%v, %d large bodies are in use", err, len(p.inUse))
		}
	})
}
