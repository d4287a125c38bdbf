# SPDX-License-Identifier: Apache-2.0
# What `make demo` records: an order book that parses, sorts, and keeps too much.
use strict;
use warnings;

my @history;

sub parse_orders {
	my ($count) = @_;
	my $lines = join("\n", map { join(";", $_, "customer " . $_ % 97, $_ * 3) } 1 .. $count);
	return [ map { [ split /;/ ] } split /\n/, $lines ];
}

sub group_by_customer {
	my ($orders) = @_;
	my %groups;
	push @{ $groups{ $_->[1] } }, $_ for @$orders;
	return \%groups;
}

# The cycle keeps every group for ever: Perl counts references.
sub remember {
	my ($groups) = @_;
	my $entry = { groups => $groups };
	$entry->{self} = $entry;
	push @history, scalar keys %$groups;
}

for my $round (1 .. 8) {
	remember(group_by_customer(parse_orders($round == 6 ? 20000 : 4000)));
}
print "demo: @history customers\n";
