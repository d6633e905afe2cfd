//! The system calls that a closed program does not get: whatever could widen its view, reach the
//! network or other processes, or attack the kernel where nobody needs it. Everything else passes.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Compare,
    SeccompCondition, SeccompFilter, SeccompRule, sock_filter,
};

/// Refused whatever their arguments.
const NEVER: [i64; 58] = [
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mbind,
    libc::SYS_migrate_pages,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_move_pages,
    libc::SYS_name_to_handle_at,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_set_mempolicy,
    libc::SYS_set_mempolicy_home_node,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

/// The bit of the other system call table of this architecture.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

fn when(
    argument: u8,
    length: Length,
    compare: Compare,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, length, compare, value)
}

fn rule(conditions: Vec<SeccompCondition>) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(conditions)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// What is refused for some arguments only.
fn sometimes() -> Result<Rules, seccompiler::BackendError> {
    use Compare::{Eq, MaskedEq, Ne};
    use Length::{Dword, Qword};
    let mut rules = Rules::new();
    let word = |value: i32| u64::from(value.cast_unsigned());
    // A namespace of its own would bring capabilities back. One rule a flag: any of them.
    let spaces = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
        0x80, // CLONE_NEWTIME; to `clone` it is a part of the exit signal.
    ];
    for flag in spaces {
        let flag = word(flag);
        let is_set = rule(vec![when(0, Qword, MaskedEq(flag), flag)?])?;
        rules.entry(libc::SYS_unshare).or_default().push(is_set.clone());
        if flag != 0x80 {
            rules.entry(libc::SYS_clone).or_default().push(is_set);
        }
    }
    // Typing into the terminal of whoever started us.
    for request in [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCSETD] {
        let is_it = rule(vec![when(1, Dword, Eq, request)?])?;
        rules.entry(libc::SYS_ioctl).or_default().push(is_it);
    }
    // Asking for the personality is all right, and so is the usual one.
    let other = vec![when(0, Dword, Ne, 0)?, when(0, Dword, Ne, 0xffff_ffff)?];
    rules.insert(libc::SYS_personality, vec![rule(other)?]);
    // To tell others when somebody opens a file, and to make them wait for it.
    for request in [libc::F_SETLEASE, libc::F_NOTIFY, F_SETDELEG] {
        let is_it = rule(vec![when(1, Dword, Eq, word(request))?])?;
        rules.entry(libc::SYS_fcntl).or_default().push(is_it);
    }
    rights_of_an_owner(&mut rules)?;
    // The internet (without the network only the program's own loopback), and asking for routes. Sockets
    // of this machine's services stay out of reach.
    let (inet, inet6, netlink) =
        (word(libc::AF_INET), word(libc::AF_INET6), word(libc::AF_NETLINK));
    let other =
        vec![when(0, Dword, Ne, inet)?, when(0, Dword, Ne, inet6)?, when(0, Dword, Ne, netlink)?];
    let not_routes = vec![when(0, Dword, Eq, netlink)?, when(2, Dword, Ne, 0)?];
    rules.insert(libc::SYS_socket, vec![rule(other)?, rule(not_routes)?]);
    // One end of a pair of datagram sockets can be sent to any address. The low bits are the type.
    let (stream, packets) = (word(libc::SOCK_STREAM), word(libc::SOCK_SEQPACKET));
    let of_type = |kind: u64| when(1, Dword, MaskedEq(0xf), kind);
    let mut pairs = Vec::new();
    for kind in (0..16).filter(|kind| *kind != stream && *kind != packets) {
        pairs.push(rule(vec![of_type(kind)?])?);
    }
    rules.insert(libc::SYS_socketpair, pairs);
    Ok(rules)
}

/// The request to be told before a file or a folder is used by others, from Linux 6.19 on.
const F_SETDELEG: i32 = 1_024 + 16;

/// A file that gives whoever runs it the rights of its owner or its group would outlive the sandbox.
fn rights_of_an_owner(rules: &mut Rules) -> Result<(), seccompiler::BackendError> {
    use Compare::MaskedEq;
    use Length::Dword;
    // Which argument is the mode.
    let with_mode = [
        (libc::SYS_fchmod, 1),
        (libc::SYS_fchmodat, 2),
        (libc::SYS_fchmodat2, 2),
        (libc::SYS_mknodat, 2),
    ];
    #[cfg(target_arch = "x86_64")]
    let old = [(libc::SYS_chmod, 1), (libc::SYS_creat, 1), (libc::SYS_mknod, 1)];
    #[cfg(not(target_arch = "x86_64"))]
    let old = [];
    // It counts only where a file is made: otherwise anything may be in its place.
    let mut opens = vec![(libc::SYS_openat, 2)];
    #[cfg(target_arch = "x86_64")]
    opens.push((libc::SYS_open, 1));
    for bit in [libc::S_ISUID, libc::S_ISGID].map(u64::from) {
        for (call, mode) in with_mode.into_iter().chain(old) {
            let is_set = rule(vec![when(mode, Dword, MaskedEq(bit), bit)?])?;
            rules.entry(call).or_default().push(is_set);
        }
        // The second is the one bit of O_TMPFILE that no other flag has.
        for makes in [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY] {
            let makes = u64::from(makes.cast_unsigned());
            for (call, flags) in &opens {
                let is_set = vec![
                    when(*flags, Dword, MaskedEq(makes), makes)?,
                    when(*flags + 1, Dword, MaskedEq(bit), bit)?,
                ];
                rules.entry(*call).or_default().push(rule(is_set)?);
            }
        }
    }
    Ok(())
}

fn compiled(rules: Rules, error: i32) -> Result<BpfProgram, String> {
    let arch = std::env::consts::ARCH;
    let arch = arch.try_into().map_err(|_| format!("no filter is known for {arch}"))?;
    let refuse = SeccompAction::Errno(error.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch);
    filter.and_then(TryInto::try_into).map_err(|error| error.to_string())
}

/// The filters, each of which must let a call pass.
pub(super) fn filters() -> Result<Vec<BpfProgram>, String> {
    let mut rules = sometimes().map_err(|error| error.to_string())?;
    rules.extend(NEVER.map(|call| (call, Vec::new())));
    #[cfg(target_arch = "x86_64")]
    rules.extend(
        [libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_uselib, libc::SYS_ustat]
            .map(|call| (call, Vec::new())),
    );
    // Their flags lie in memory, where a filter cannot look. Programs then take `clone` and `openat`.
    let unknown: Rules = [(libc::SYS_clone3, Vec::new()), (libc::SYS_openat2, Vec::new())].into();
    let mut filters = vec![compiled(rules, libc::EPERM)?, compiled(unknown, libc::ENOSYS)?];
    #[cfg(target_arch = "x86_64")]
    filters.push(no_x32());
    Ok(filters)
}

/// The other table has the same calls under other numbers.
#[cfg(target_arch = "x86_64")]
fn no_x32() -> BpfProgram {
    let step = |code: u32, jt, jf, k| sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt,
        jf,
        k,
    };
    vec![
        // The number of the call is the first word.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

pub(super) fn apply() -> Result<(), String> {
    for filter in filters()? {
        seccompiler::apply_filter(&filter).map_err(|error| error.to_string())?;
    }
    Ok(())
}
