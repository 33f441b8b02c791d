package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider/simulatedtest"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// The client buys every kind of token from the simulated service in each protocol.
func TestAgainstAWholeService(t *testing.T) {
	for _, row := range []struct {
		api     targets.Protocol
		profile string
	}{
		{targets.ProtocolInPHP, captchaAI},
		{targets.ProtocolInPHP, twoCaptcha},
		{targets.ProtocolInPHP, other},
		{targets.ProtocolCreateTask, captchaAI},
		{targets.ProtocolCreateTask, twoCaptcha},
		{targets.ProtocolCreateTask, other},
	} {
		t.Run(string(row.api)+"/"+row.profile, func(t *testing.T) {
			t.Parallel()
			o := simulatedtest.Setup{Key: canary, Median: time.Hour, Threads: 100, UserAgent: "a browser"}
			busy := simulatedtest.New(o)
			o.Median = time.Millisecond
			service := simulatedtest.New(o)
			cfg := targets.Provider{Protocol: row.api, Service: row.profile, Balance: true}
			waiting, _ := newServedClient(t, cfg, busy.ServeHTTP)
			c, _ := newServedClient(t, cfg, service.ServeHTTP)
			buyEveryKind(t, waiting, c, service)
			ctx := t.Context()
			offered := row.api == targets.ProtocolInPHP && row.profile == captchaAI
			if total, ok, err := c.Threads(ctx); err != nil || ok != offered || ok && total != 100 {
				t.Errorf("threads: %d %v %v", total, ok, err)
			}
			if err := c.ReadBalance(ctx); err != nil || c.Balance() == nil {
				t.Errorf("balance: %v", err)
			}
			_, err := c.Poll(ctx, "123", everyKind()[0])
			testkit.Equal(t, "an unknown task", faultOf(t, err).Class, Task)
			_, err = c.Submit(ctx, Submission{Identity: captcha.Identity{Type: captcha.Image}, Image: []byte("a text")})
			testkit.Equal(t, "no picture", faultOf(t, err).Class, Parameters)
		})
	}
	service := simulatedtest.New(simulatedtest.Setup{Key: "another"})
	c, _ := newServedClient(t, targets.Provider{}, http.HandlerFunc(service.ServeHTTP))
	testkit.Equal(t, "a wrong key", faultOf(t, submitOne(t, c)).Class, Account)
}

// buyEveryKind buys each kind of token from a slow service and from a service that solves at
// once.
func buyEveryKind(t *testing.T, waiting, c *Client, service *simulatedtest.Service) {
	t.Helper()
	ctx := t.Context()
	for i, id := range everyKind() {
		task, err := waiting.Submit(ctx, request(id))
		testkit.NoError(t, err)
		_, err = waiting.Poll(ctx, task, id)
		testkit.ErrorIs(t, string(id.Type)+", polled an hour before its end", err, ErrNotReady)
		task, err = c.Submit(ctx, request(id))
		testkit.NoError(t, err)
		solution, err := c.Poll(ctx, task, id)
		for errors.Is(err, ErrNotReady) {
			time.Sleep(time.Millisecond)
			solution, err = c.Poll(ctx, task, id)
		}
		if err != nil || solution.Extra.Members()["userAgent"] == "" {
			t.Fatalf("%+v: %+v, %v", id, solution, err)
		}
		sale := service.Sold()[i]
		if sale.Task != task || sale.Identity != id {
			t.Errorf("ordered %+v, sold %+v", id, sale.Identity)
		}
		got, sold := captcha.Named(id.Type, solution.Token), captcha.Named(id.Type, sale.Token)
		if captcha.HasNamed(id.Type) && (got == nil || !maps.Equal(got, sold)) ||
			!captcha.HasNamed(id.Type) && solution.Token != sale.Token {
			t.Errorf("%s: got %s, sold %s", id.Type, solution.Token, sale.Token)
		}
		if whose, ok := simulatedtest.IdentityOf(solution.Token); !ok || whose != id.ID().Hash() {
			t.Errorf("%s: got the token of %s, %v: %s", id.Type, whose, ok, solution.Token)
		}
	}
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
