package backend

import (
	"cmp"
	"time"

	"poold/internal/provider"
	"poold/internal/targets"
)

// ProviderConfig converts a provider in the file to the configuration of the provider's client. For a
// simulated provider the caller must set URL and Key.
func ProviderConfig(p targets.Provider) provider.Config {
	config := provider.Config{
		Name: p.Name, Protocol: string(p.Protocol), Profile: p.Profile, URL: p.URL, Key: p.Key,
		FirstPoll: p.FirstPoll, PollInterval: p.PollInterval, Timeout: p.Timeout, Balance: p.Balance,
	}
	if p.Protocol == targets.ProtocolSimulated {
		config.Protocol, config.Profile = provider.ProtocolInPHP, "2captcha"
		// Polls are frequent, because this provider solves quickly.
		config.FirstPoll = cmp.Or(config.FirstPoll, 2*time.Second)
		config.PollInterval = cmp.Or(config.PollInterval, time.Second)
	}
	return config
}
