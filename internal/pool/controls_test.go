package pool

import (
	"testing"
	"testing/synctest"

	"poold/internal/captcha"
	"poold/internal/redisdb/redistest"
)

// Each change by an operator immediately reaches this replica and all other replicas.
func TestControlsAreAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{Addresses: redistest.BubbleAddress, Dial: redistest.InBubble(t).Dial, Prefix: "controls"}
		here, there := make(chan captcha.ID, 9), make(chan captcha.ID, 9)
		o.OnChange = func(id captcha.ID) { here <- id }
		s, id := open(t, o), identity("controls")
		o.OnChange = func(id captcha.ID) { there <- id }
		open(t, o)
		synctest.Wait() // until both stores listen
		for name, change := range map[string]func() error{
			"pause":  func() error { return s.Pause(t.Context(), id, Pause{}) },
			"resume": func() error { return s.Resume(t.Context(), id) },
			"flush": func() error {
				_, err := s.Flush(t.Context(), id, 0)
				return err
			},
			"retry": func() error {
				_, err := s.Retry(t.Context(), id)
				return err
			},
		} {
			must(t, change())
			synctest.Wait()
			for replica, heard := range map[string]chan captcha.ID{"this replica": here, "the other replica": there} {
				if len(heard) == 0 {
					t.Errorf("%s does not hear of %s", replica, name)
				}
				for len(heard) > 0 {
					if got := <-heard; got != id {
						t.Errorf("%s hears of %s after %s", replica, got, name)
					}
				}
			}
		}
	})
}
