-- How the provider of an order was chosen; '' = unknown.
alter table captcha_solves add column if not exists choice text not null default '';
