"""What `priced` is compared with."""
