package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider/simulatedtest"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// The client buys every kind of token from the simulated service in each protocol. TestReplies has the other answers.
func TestAgainstAWholeService(t *testing.T) {
	for _, d := range dialects() {
		for _, name := range []string{captchaAI, twoCaptcha, other} {
			t.Run(string(d.api)+"/"+name, func(t *testing.T) {
				t.Parallel()
				service := simulatedtest.New(simulatedtest.Setup{
					Key: canary, Median: time.Millisecond, Threads: 100, UserAgent: "a browser",
				})
				c, _ := newServedClient(t, targets.Provider{Protocol: d.api, Service: name}, service.ServeHTTP)
				for i, id := range everyKind() {
					buyFrom(t, c, service, i, id)
				}
				total, is, err := c.Threads(t.Context())
				testkit.NoError(t, err)
				offered := d.api == targets.ProtocolInPHP && name == captchaAI
				if is != offered || offered && total != 100 {
					t.Errorf("threads: %d %v", total, is)
				}
			})
		}
	}
}

// buyFrom buys a token, which is sale number i of the service.
func buyFrom(t *testing.T, c *Client, service *simulatedtest.Service, i int, id captcha.Identity) {
	t.Helper()
	task, err := c.Submit(t.Context(), request(id))
	testkit.NoError(t, err)
	solution, err := c.Poll(t.Context(), task, id)
	for errors.Is(err, ErrNotReady) {
		time.Sleep(time.Millisecond)
		solution, err = c.Poll(t.Context(), task, id)
	}
	testkit.NoError(t, err)
	testkit.Equal(t, string(id.Type)+": user agent", solution.Extra.Members()["userAgent"] != "", true)
	sale := service.Sold()[i]
	if sale.Task != task || sale.Identity != id {
		t.Errorf("ordered %+v, sold %+v", id, sale.Identity)
	}
	got, sold := captcha.Named(id.Type, solution.Token), captcha.Named(id.Type, sale.Token)
	if captcha.HasNamed(id.Type) && (got == nil || !maps.Equal(got, sold)) ||
		!captcha.HasNamed(id.Type) && solution.Token != sale.Token {
		t.Errorf("%s: got %s, sold %s", id.Type, solution.Token, sale.Token)
	}
	whose, _ := simulatedtest.IdentityOf(solution.Token)
	testkit.Equal(t, "the identity in "+solution.Token, whose, id.ID().Hash())
}

const (
	hex32         = "81dc9bdb52d04dc20036dbd8313ed055"
	pictureCanary = "picture-canary-4711-"
)

func thePicture() []byte {
	return []byte("\x89PNG\r\n\x1a\n" + strings.Repeat(pictureCanary, 30))
}

func request(id captcha.Identity) Submission {
	r := Submission{Identity: id}
	if id.Type == captcha.Image {
		r.Image = thePicture()
	}
	return r
}

// everyKind returns an identity of each type, which has all fields.
func everyKind() (ids []captcha.Identity) {
	sum := sha256.Sum256(thePicture())
	for _, kind := range captcha.Kinds {
		id := identities(kind)[0]
		if kind.Type == captcha.Image {
			id.Picture.SHA256 = hex.EncodeToString(sum[:])
		}
		ids = append(ids, id)
	}
	return ids
}
