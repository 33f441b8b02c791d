package redisdb

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// slowHook limits each exchange of the slow client to CallTimeout, and converts errors to ErrDown.
// slowHook does not convert redis.Nil, which means that a key does not exist.
type slowHook struct{}

func (slowHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (slowHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		ctx, cancel := context.WithTimeout(ctx, CallTimeout)
		defer cancel()
		return failure(next(ctx, command))
	}
}

func (slowHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		ctx, cancel := context.WithTimeout(ctx, CallTimeout)
		defer cancel()
		err := next(ctx, commands)
		for _, command := range commands {
			command.SetErr(failure(command.Err()))
		}
		return failure(err)
	}
}

func failure(err error) error {
	if errors.Is(err, redis.Nil) {
		return err
	}
	return Down(err)
}
