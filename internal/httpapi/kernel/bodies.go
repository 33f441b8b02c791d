package kernel

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
)

// smallBody is the most that a body may have and be read without asking for room.
const smallBody = MaxBody

// Bodies bounds what large bodies, which are pictures, cost a replica. Their bytes take
// room in server.body_budget from before they are read until they are not needed any more,
// and at most half of the processors decode them at once, so that takes stay fast.
type Bodies struct {
	decoders chan struct{} // has room for each that decodes
	onMany   func(bool)    // as of Deps.ManyBodies; nil = nothing

	mu    sync.Mutex
	taken int64 // bytes of the budget
}

// manyBodies is how many bytes of bodies are many.
const manyBodies = 32 << 20

func NewBodies(onMany func(bool)) *Bodies {
	return &Bodies{decoders: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), onMany: onMany}
}

// addLocked changes how much is taken.
func (b *Bodies) addLocked(bytes int64) {
	was := b.taken > manyBodies
	b.taken += bytes
	if is := b.taken > manyBodies; is != was && b.onMany != nil {
		b.onMany(is)
	}
}

// Room is the share of one request in the budget. It belongs to the handler and to each
// holder.
type Room struct {
	bodies *Bodies
	most   int64 // the budget

	// Guarded by bodies.mu.
	bytes   int64
	holders int
}

// Read reads a body of at most most bytes. The caller must release the room that the body
// takes, even if there is an error. Without room it fails with CodeOverloaded, after it
// has read and dropped the body: many clients read no answer before they have sent all of
// it.
func (b *Bodies) Read(r *http.Request, c *Call, most int64) (body []byte, taken *Room, err error) {
	taken = &Room{bodies: b, most: int64(c.Access.Set.Server.BodyBudget), holders: 1}
	length := r.ContentLength
	if length < 0 || length > most {
		length = most
	}
	if length > smallBody {
		if err := taken.Resize(length); err != nil {
			_, _ = io.Copy(io.Discard, http.MaxBytesReader(c.W.ResponseWriter, r.Body, most))
			return nil, taken, err
		}
	}
	body, err = ReadBody(r, c.W.ResponseWriter, most)
	return body, taken, err
}

// Resize changes the room to the size of the part of the body that is still needed. It
// fails with CodeOverloaded if the budget has no room.
func (m *Room) Resize(bytes int64) error {
	b := m.bodies
	b.mu.Lock()
	defer b.mu.Unlock()
	if more := bytes - m.bytes; more > 0 && b.taken+more > m.most {
		return NewProblem(CodeOverloaded,
			fmt.Sprintf("the bodies of requests that have not ended take all of server.body_budget (%d MiB)", m.most>>20)).Soon()
	}
	b.addLocked(bytes - m.bytes)
	m.bytes = bytes
	return nil
}

// Hold keeps the room until the returned function is called, whatever the handler does.
func (m *Room) Hold() (release func()) {
	m.bodies.mu.Lock()
	defer m.bodies.mu.Unlock()
	m.holders++
	return sync.OnceFunc(m.Release)
}

// Release gives the room back if it was the last that held it.
func (m *Room) Release() {
	m.bodies.mu.Lock()
	defer m.bodies.mu.Unlock()
	if m.holders--; m.holders == 0 {
		m.bodies.addLocked(-m.bytes)
		m.bytes = 0
	}
}

// Decode runs do, which decodes the body, when a decoder is free. It returns the error of
// ctx if that ends before. A small body does not wait.
func (m *Room) Decode(ctx context.Context, do func()) error {
	m.bodies.mu.Lock()
	small := m.bytes == 0
	m.bodies.mu.Unlock()
	if small {
		do()
		return nil
	}
	select {
	case m.bodies.decoders <- struct{}{}:
		defer func() { <-m.bodies.decoders }()
		do()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
