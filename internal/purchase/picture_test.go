package purchase

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"poold/internal/captcha"
	"poold/internal/provider"
)

const pictureCanary = "picture-canary-4711-"

// pictureSpec returns a spec with a picture. Each part that must not be stored contains a canary.
func pictureSpec() Spec {
	image := []byte("\x89PNG\r\n\x1a\n" + strings.Repeat(pictureCanary, 100))
	sum := sha256.Sum256(image)
	target := spec()
	target.Image = image
	target.Identity = captcha.Identity{
		Type: captcha.Image, Proxy: "user:proxy-canary@192.0.2.1:8080", ProxyType: "http",
		Picture: captcha.Picture{SHA256: hex.EncodeToString(sum[:]), Charset: captcha.Letters, MinLength: 4, Language: "en"},
	}
	target.ID = target.Identity.ID()
	return target
}

// visibleCanaries returns the canaries of a picture that a text contains, raw or encoded.
func visibleCanaries(text string) (found []string) {
	for _, canary := range []string{pictureCanary, "proxy-canary"} {
		for i := range 3 { // base64 encodes a text in three forms, depending on its offset
			encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", i) + canary))
			if strings.Contains(text, encoded[4:len(encoded)-4]) {
				found = append(found, canary+" in base64")
			}
		}
		for _, form := range []string{canary, hex.EncodeToString([]byte(canary))} {
			if strings.Contains(text, form) {
				found = append(found, canary)
			}
		}
	}
	return found
}

// Only the provider gets a picture's bytes, and after the submit nothing refers to them. Redis,
// facts, log, events and errors contain neither the picture nor the proxy. Only the stock contains
// the answer.
func TestAPictureIsInMemoryUntilTheSubmit(t *testing.T) {
	if len(visibleCanaries("a "+pictureCanary)) == 0 || len(visibleCanaries(base64.StdEncoding.EncodeToString(pictureSpec().Image))) == 0 {
		t.Fatal("a canary is not seen")
	}
	for name, fault := range map[string]error{
		"solved":  nil,
		"refused": &provider.Error{Class: provider.Parameters, Code: "ERROR_IMAGE_TYPE_NOT_SUPPORTED"},
		"lost":    &provider.Error{Class: provider.Capacity, Code: "timeout", Unknown: true},
	} {
		runBubble(t, name, func(t *testing.T) {
			s := newTestBuyer(t, 5)
			var logged bytes.Buffer
			var events []Event
			s.buyer.log = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
			s.buyer.observe = listener{witness{s.ledger}, &events}
			var pictures []string // pictures that Redis contains
			s.provider.submit = func(context.Context) (string, error) {
				pictures = append(pictures, s.stock.dump())
				return "t1", fault
			}
			s.provider.poll = func(_ context.Context, n int) (provider.Solution, error) {
				pictures = append(pictures, s.stock.dump())
				if n == 1 {
					return provider.Solution{}, provider.ErrNotReady
				}
				return provider.Solution{Token: "zwei wörter"}, nil
			}
			image, ended := s.buyPicture(t)
			time.Sleep(time.Second) // the order is submitted but not polled yet
			synctest.Wait()
			runtime.GC()
			if image.Value() != nil {
				t.Error("the picture is still in memory after its submit")
			}
			r := <-ended
			if s.provider.image != string(pictureSpec().Image) {
				t.Errorf("the provider was given %d bytes", len(s.provider.image))
			}
			if (r.Err == nil) != (fault == nil) {
				t.Errorf("ended with %v", r.Err)
			}
			texts := append(pictures, s.stock.dump(), logged.String(), fmt.Sprintf("%+v", events), fmt.Sprint(r.Err))
			for _, o := range s.stock.placed {
				if facts := o.Facts.Identity.Picture; facts != pictureSpec().Identity.Picture {
					t.Errorf("the facts do not name the picture: %+v", facts)
				}
			}
			for _, text := range texts {
				if found := visibleCanaries(text); found != nil {
					t.Errorf("%q in %s", found, text)
				}
			}
			if n := strings.Count(s.stock.dump(), "zwei w"); fault == nil && n != 1 {
				t.Errorf("the answer is in Redis %d times, want once, in the stock", n)
			}
			if strings.Contains(logged.String()+fmt.Sprintf("%+v", events), "zwei w") {
				t.Errorf("the answer was shown: %s", logged.String())
			}
		})
	}
}

// buyPicture buys an order with a picture to which the test keeps no reference.
func (s *testBuyer) buyPicture(t *testing.T) (weak.Pointer[byte], <-chan Result) {
	t.Helper()
	slot, _, _ := mustAdmit(t, s.buyer)
	target := pictureSpec()
	image := weak.Make(&target.Image[0])
	ended := make(chan Result, 1)
	if err := s.buyer.Buy(t.Context(), slot, target, func(r Result) { ended <- r }); err != nil {
		t.Fatal(err)
	}
	return image, ended
}

// Whether a callback is valid depends on the order's type. For example, the text of a picture is
// not a reCAPTCHA token.
func TestACallbackMustFitItsOrdersType(t *testing.T) {
	const named = "challenge:c,validate:v,seccode:v|jordan"
	geetest := captcha.Identity{Type: captcha.GeeTest, GT: "g", Challenge: "c", Pageurl: "https://example.com/"}
	for _, row := range []struct {
		identity captcha.Identity
		code     string
		lands    bool
	}{
		{pictureSpec().Identity, "zwei wörter", true},
		{pictureSpec().Identity, strings.Repeat("x", 5000), false},
		{geetest, named, true},
		{geetest, "03AFcallback", false},
		{spec().Identity, "03AFcallback", true},
		{spec().Identity, "zwei wörter", false},
	} {
		runBubble(t, fmt.Sprintf("%s/%.10s", row.identity.Type, row.code), func(t *testing.T) {
			s := newCallbackBuyer(t, "no letters")
			target := spec()
			target.Identity, target.ID = row.identity, row.identity.ID()
			ended := s.startCollecting(t, s.orderFor(t, target))
			c := callbackTo(s.provider.submitted.Pingback, "")
			c.Query = map[string][]string{"id": {"t1"}, "code": {row.code}}
			s.mustCall(t, c)
			synctest.Wait()
			if !row.lands {
				if n := s.stock.tokens(); n != 0 {
					t.Errorf("%d tokens landed", n)
				}
				s.mustCall(t, callbackTo(s.provider.submitted.Pingback, "id=t1&code=ERROR_CAPTCHA_UNSOLVABLE"))
				if r := <-ended; r.Outcome != Failed {
					t.Errorf("ended with %+v", r)
				}
				return
			}
			if r := <-ended; r.Outcome != Solved || s.stock.landed()[0].Value != row.code || s.provider.polls != 0 {
				t.Errorf("ended with %+v after %d polls", r, s.provider.polls)
			}
		})
	}
}
