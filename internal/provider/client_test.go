package provider

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestABalanceIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c, _, _, says := newScriptedClient(t, Config{Balance: true})
		says(http.StatusOK, "2.5")
		if err := c.ReadBalance(ctx); err != nil {
			t.Fatal(err)
		}
		if b := c.Balance(); b == nil || *b != 2.5 {
			t.Errorf("balance %v", b)
		}
		says(http.StatusOK, `{"status":1,"request":"a lot"}`)
		if err := c.ReadBalance(ctx); err == nil {
			t.Error("a balance that is not a number is accepted")
		}
		if b := c.Balance(); b == nil || *b != 2.5 {
			t.Errorf("the last good balance is gone: %v", b)
		}

		off, _, w, _ := newScriptedClient(t, Config{})
		if err := off.ReadBalance(ctx); err != nil || w.count() != 0 || off.Balance() != nil {
			t.Errorf("a balance that is switched off is read: %v", err)
		}
	})
}

func TestNewRefusesAnInvalidConfig(t *testing.T) {
	good := Config{Name: "n", Timeout: time.Minute, Protocol: ProtocolInPHP, Profile: generic, URL: "https://example.com/sub/"}
	if c, err := New(good); err != nil || c.Name() != "n" || c.Timeout() != time.Minute || c.base != "https://example.com/sub" {
		t.Errorf("%+v, %v", c, err)
	}
	for name, spoil := range map[string]func(*Config){
		"api":       func(c *Config) { c.Protocol = "simulated" },
		"profile":   func(c *Config) { c.Profile = "other" },
		"no url":    func(c *Config) { c.URL = "" },
		"scheme":    func(c *Config) { c.URL = "ftp://example.com" },
		"no host":   func(c *Config) { c.URL = "https:///in.php" },
		"user":      func(c *Config) { c.URL = "https://u:p@example.com" },
		"query":     func(c *Config) { c.URL = "https://example.com/?key=x" },
		"fragment":  func(c *Config) { c.URL = "https://example.com/#x" },
		"nonsense":  func(c *Config) { c.URL = "http://[::1" },
		"no scheme": func(c *Config) { c.URL = "example.com" },
	} {
		cfg := good
		spoil(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
