"""What NCCL and RCCL tell: Inspector records, RAS answers, debug logs, nccl-tests output."""
